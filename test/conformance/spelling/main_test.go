// Package spelling proves that one request has one reading on its way through
// the edge: what a rule matched is what its policies judged and what the
// backend is asked for, in whatever spelling a client writes path, host, query
// or headers.
//
// It makes matrices of spellings, sends them to the real edge as origin form,
// as absolute form and over HTTP/2, and looks at what a backend gets, byte for
// byte. The backend is then read as carelessly as programs are known to read:
// escapes decoded, dots resolved, backslashes and path parameters understood,
// text cut at a NUL. If a request that no password was asked for leads to
// something protected in any such reading, the edge was fooled.
package spelling

import (
	"testing"

	"slipway.dev/slipway/test/conformance/edgeprocess"
)

func TestMain(m *testing.M) { edgeprocess.Main(m) }
