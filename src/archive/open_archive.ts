/** From the configuration to an archive. */
import type { ArchivePlace } from "../platform/config.ts";
import type { Archive } from "./archive.ts";
import { Bucket } from "./bucket.ts";
import { Folder } from "./folder.ts";

/** Undefined: none is configured. Nothing is opened yet. */
export function openArchive(place: ArchivePlace | undefined): Archive | undefined {
  if (!place) return undefined;
  return place.kind === "folder" ? new Folder(place.path) : new Bucket(place);
}
