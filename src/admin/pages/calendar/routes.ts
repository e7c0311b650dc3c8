/** What there is of the calendar, and who may do it. */
import type { Route } from "../../request_context.ts";
import { showCalendar } from "./grid.tsx";
import { backfillSlots, showSlots } from "./slots.tsx";

export const calendarRoutes: Route[] = [
  { get: "/calendar", role: "viewer", show: showCalendar },
  { get: "/calendar/:id", role: "viewer", show: showSlots },
  { post: "/calendar/:id/backfill", role: "operator", act: backfillSlots },
];
