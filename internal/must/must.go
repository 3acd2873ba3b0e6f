// Package must ends a test at an error that the test does not expect. It is for
// tests only.
package must

import "testing"

// Do ends the test if there is an error. It is for calls that only prepare or
// clean up: an error that a test is about deserves a message of its own.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
