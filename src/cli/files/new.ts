/** `new`: a job file to start from. It never overwrites one. */
import { readConfigForFiles } from "../../platform/config.ts";
import { CommandError, EXIT, say } from "../../app/output.ts";

export async function newCommand(name: string): Promise<void> {
  if (!/^[a-z0-9][a-z0-9_.-]{0,63}$/.test(name)) {
    throw new CommandError(
      `Cannot use "${name}" as a job's name: it starts with a lower-case letter or digit and has at most 64 of a-z 0-9 _ . -`,
      EXIT.usage,
    );
  }
  const path = `${readConfigForFiles().jobs_dir}/${name}.ts`;
  try {
    await Deno.writeTextFile(path, TEMPLATE, { createNew: true });
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) {
      throw new CommandError(`Cannot write ${path}: the file already exists; choose another name`);
    }
    if (error instanceof Deno.errors.NotFound) {
      throw new CommandError(`Cannot write ${path}: there is no such folder; create it, or set SCHEDULER_JOBS_DIR`);
    }
    throw error;
  }
  say(`${path} written; next: deno task sync, then deno task run ${name} --args '{"name":"you"}' --wait`);
}

const TEMPLATE = `import { defineJob } from "dandori";
import { z } from "zod";

export default defineJob({
  description: "Say hello",
  args: z.object({ name: z.string().default("world") }),
  timeoutSeconds: 60,
  retry: { max: 2, backoffSeconds: 5 },
  permissions: {}, // what the body may touch, e.g. { net: ["api.example.com"], env: ["API_KEY"] }
  run({ args, log }) {
    log.info(\`hello \${args.name}\`);
    return { greeted: args.name };
  },
});
`;
