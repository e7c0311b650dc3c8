export default { run() {} };
