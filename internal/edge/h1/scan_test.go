package h1_test

import (
	"testing"

	"golang.org/x/net/http/httpguts"

	"slipway.dev/slipway/internal/edge/h1"
)

// A value is clean if the library finds it valid, wherever in it a byte is.
func TestCleanValue(t *testing.T) {
	for length := range 20 {
		value := make([]byte, length)
		for i := range value {
			value[i] = 'a'
		}
		for i := range value {
			for c := range 256 {
				value[i] = byte(c)
				if got, want := h1.CleanValue(string(value)), httpguts.ValidHeaderFieldValue(string(value)); got != want {
					t.Errorf("%q is clean: %t, and should be: %t", value, got, want)
				}
			}
			value[i] = 'a'
		}
	}
}
