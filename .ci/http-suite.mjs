// Asks the cache behind BASE everything that the public suite in SUITE asks a private cache, and prints a line for each
// test: its name, its kind and its result.
//
//     node http-suite.mjs SUITE BASE
import { pathToFileURL } from 'node:url'
import { resolve } from 'node:path'

const [suite, base] = process.argv.slice(2)
const load = path => import(pathToFileURL(resolve(suite, path)))
const { runTests, getResults } = await load('test-engine/client/runner.mjs')
const { determineTestResult, resultTypes } = await load('test-engine/lib/results.mjs')
const tests = (await load('tests/index.mjs')).default

// As for a browser's cache: tests of shared caches are not run.
await runTests(tests, true, base)
const results = getResults()
const name = type => Object.keys(resultTypes).find(key => resultTypes[key] === type)
const lines = tests.flatMap(set => set.tests)
  .filter(test => !test.cdn_only && !test.browser_skip)
  .map(test => `${test.id} ${test.kind ?? 'required'} ${name(determineTestResult(tests, test.id, results))}`)
console.log(lines.sort().join('\n'))
process.exit(0)
