/** Where bodies leave their marks. The harness writes its own folder into the copy of this file that its workers have. */
export const FOLDER = "/nowhere";
