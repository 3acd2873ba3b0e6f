// Package values declares the values of the charts: each with its key, kind,
// default, rule and description. The schema that Helm checks, the commented
// values.yaml, the reference page and the reader of values files all come from
// the one declaration.
//
// It promises that the reader refuses what the schema refuses, that it reports
// all problems at once, and that a documented older spelling of a key means the
// same as ours.
//
// It refuses unknown keys, and two spellings of one key that disagree. It never
// repeats the value of a secret.
package values
