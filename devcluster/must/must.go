// Package must ends a test at an error that the test does not expect, as
// internal/must does, which this module cannot import. It is for tests only.
package must

import "testing"

// Do ends the test if there is an error. It is for calls that only prepare or
// clean up: an error that a test is about deserves a message of its own.
// Without an error it costs nothing, so that benchmarks can use it.
func Do(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Get returns the value of a call, and ends the test if the call returned an
// error: must.Get(os.ReadFile(path))(t).
func Get[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return value
	}
}
