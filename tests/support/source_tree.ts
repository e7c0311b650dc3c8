/** The repository's own TypeScript, as far as rules about it need to know: read by deno lint's parser, not guessed. */
import { dirname, join, normalize } from "node:path";
import { PROJECT_DIR } from "../../src/platform/config.ts";

export interface Place {
  name: string;
  line: number;
}

export interface Source {
  /** From the project's folder. */
  path: string;
  text: string;
  lines: number;
  /** What it imports: a path from the project's folder, or a package's name. */
  imports: Place[];
  functions: (Place & { lines: number })[];
  /** Names that it calls or reaches into: `setTimeout`, `Deno.env`, `new Date()`; and `any` as a type. */
  uses: Place[];
  exports: (Place & { documented: boolean })[];
}

/** All TypeScript below a folder, or none where there is no such folder. */
export function sourcesIn(folder: string): Source[] {
  const found: Source[] = [];
  for (const { name, isDirectory } of entriesOf(folder)) {
    if (isDirectory) found.push(...sourcesIn(`${folder}/${name}`));
    else if (/\.tsx?$/.test(name)) found.push(readSource(`${folder}/${name}`));
  }
  return found.sort((a, b) => a.path < b.path ? -1 : 1);
}

function entriesOf(folder: string): Deno.DirEntry[] {
  try {
    return [...Deno.readDirSync(`${PROJECT_DIR}/${folder}`)];
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

export function readSource(path: string): Source {
  return parseSource(path, Deno.readTextFileSync(`${PROJECT_DIR}/${path}`));
}

export function parseSource(path: string, text: string): Source {
  const source: Source = {
    path,
    text,
    lines: linesIn(text.trimEnd()),
    imports: [],
    functions: [],
    uses: [],
    exports: [],
  };
  const create = () => visitorFor(source);
  Deno.lint.runPlugin({ name: "source-tree", rules: { read: { create } } }, path, text);
  return source;
}

type FunctionNode =
  | Deno.lint.FunctionDeclaration
  | Deno.lint.FunctionExpression
  | Deno.lint.ArrowFunctionExpression;

function visitorFor(source: Source): Deno.lint.LintVisitor {
  const lineOf = ({ range }: Deno.lint.Node) => linesIn(source.text.slice(0, range[0]));
  const textOf = ({ range }: Deno.lint.Node) => source.text.slice(...range);
  const use = (node: Deno.lint.Node, name: string) => void source.uses.push({ name, line: lineOf(node) });
  const addImport = (node: Deno.lint.Node, specifier: unknown) => {
    if (typeof specifier !== "string") return;
    const name = specifier.startsWith(".") ? normalize(join(dirname(source.path), specifier)) : specifier;
    source.imports.push({ name, line: lineOf(node) });
  };
  const addFunction = (node: FunctionNode) => {
    const name = textOf(
      node.parent.type === "Property" || node.parent.type === "MethodDefinition" ? node.parent : node,
    );
    const lines = linesIn(textOf(node));
    source.functions.push({ name: name.split("\n")[0]?.slice(0, 60) ?? "", line: lineOf(node), lines });
  };
  return {
    ImportDeclaration: (node) => addImport(node, node.source.value),
    ImportExpression: (node) => addImport(node, node.source.type === "Literal" ? node.source.value : undefined),
    TSImportType: ({ argument }) => {
      if (argument.type === "TSLiteralType" && argument.literal.type === "Literal") {
        addImport(argument, argument.literal.value);
      }
    },
    ExportAllDeclaration: (node) => addImport(node, node.source.value),
    ExportNamedDeclaration(node) {
      if (node.source) addImport(node, node.source.value);
      const documented = source.text.slice(0, node.range[0]).trimEnd().endsWith("*/");
      source.exports.push({ name: textOf(node).split("\n")[0] ?? "", line: lineOf(node), documented });
    },
    FunctionDeclaration: addFunction,
    FunctionExpression: addFunction,
    ArrowFunctionExpression: addFunction,
    TSAnyKeyword: (node) => use(node, "any"),
    MemberExpression(node) {
      if (!node.computed) use(node, `${textOf(node.object)}.${textOf(node.property)}`);
    },
    CallExpression(node) {
      if (node.callee.type === "Identifier") use(node, node.callee.name);
    },
    NewExpression(node) {
      if (node.arguments.length === 0) use(node, `new ${textOf(node.callee)}()`);
    },
  };
}

function linesIn(text: string): number {
  return text.split("\n").length;
}
