/** What there is of the calendar, and who may do it. */
import { backfill } from "../../../actions/schedule_actions.ts";
import type { Route } from "../../request_context.ts";
import { showCalendar } from "./grid.tsx";
import { backfillSlots, showSlots } from "./slots.tsx";

export const calendarRoutes: Route[] = [
  { get: "/calendar", role: "viewer", costly: true, show: showCalendar },
  { get: "/calendar/:id", role: "viewer", costly: true, show: showSlots },
  { post: "/calendar/:id/backfill", does: backfill, act: backfillSlots },
];
