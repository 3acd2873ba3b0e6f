package remote

import (
	"bytes"
	"testing"
)

// FuzzReport: no response to a push makes it panic, and only ok for the branch after
// unpack ok is a success.
func FuzzReport(f *testing.F) {
	f.Add([]byte("000eunpack ok\n0016ok refs/heads/main0000"))
	f.Add([]byte("000eunpack ok\n0027ng refs/heads/main fetch first and so0000"))
	f.Add([]byte("0012unpack failed\n0000"))
	f.Add([]byte("ffff"))
	f.Fuzz(func(t *testing.T, response []byte) {
		err := Update{Ref: "refs/heads/main"}.readReport(bytes.NewReader(response))
		if err == nil && (!bytes.Contains(response, []byte("unpack ok")) || !bytes.Contains(response, []byte("ok refs/heads/main"))) {
			t.Errorf("%q is a success", response)
		}
	})
}
