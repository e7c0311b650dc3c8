/** The version of this program; workers of two versions may work side by side during an upgrade. */
export const VERSION = "0.1.0";
