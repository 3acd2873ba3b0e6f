// Package values declares the values of the charts: each with its key, kind,
// default, rule and description. The schema that Helm checks, the commented
// values.yaml, the page for people and the reader of values files all come from
// the one declaration.
//
// It promises that what the schema refuses the reader refuses too, that a reader
// names everything that is wrong at once, and that a documented older spelling of
// a key means the same as ours.
//
// It refuses keys that nobody reads, and two spellings of one key that disagree.
// It never repeats the value of a secret.
package values
