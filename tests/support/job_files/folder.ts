/** A jobs folder of its own for a test. */

export interface JobFolder {
  dir: string;
  path(file: string): string;
  write(file: string, source: string): void;
  remove(file: string): void;
}

/** Makes a folder with these files, by their paths, and removes it afterwards. */
export async function withJobs<T>(files: Record<string, string>, test: (jobs: JobFolder) => Promise<T>): Promise<T> {
  const root = await Deno.realPath(await Deno.makeTempDir({ prefix: "dandori-jobs-" }));
  const dir = `${root}/jobs`;
  const jobs: JobFolder = {
    dir,
    path: (file) => `${dir}/${file}`,
    write(file, source) {
      const path = `${dir}/${file}`;
      Deno.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true });
      Deno.writeTextFileSync(path, source);
    },
    remove: (file) => Deno.removeSync(`${dir}/${file}`),
  };
  try {
    await Deno.mkdir(dir);
    for (const [file, source] of Object.entries(files)) jobs.write(file, source);
    return await test(jobs);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}
