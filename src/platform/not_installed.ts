/** A package that is named and not there. Nothing of ours asks a registry for one: whoever runs a machine installs what it has. */

/** What Deno says where it may install nothing itself. */
const NOT_THERE = [
  /Could not find a matching package for '(npm:[^']+)'/,
  /npm package not found in cache: "([^"]+)", --cached-only/,
];

/** What is missing and how to get it; undefined: the words are of something else. */
export function notInstalledText(said: string): string | undefined {
  const name = NOT_THERE.map((sign) => sign.exec(said)?.[1]).find((name) => name !== undefined);
  return name && `the package ${name} is not installed on this machine; run \`deno install\` in the checkout`;
}
