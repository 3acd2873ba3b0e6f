package gateway

import (
	"maps"
	"testing"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// FuzzTargets: a text that was read is written so that it is read the same.
func FuzzTargets(f *testing.F) {
	f.Add("53/udp=20000 80=20001")
	f.Add("80=20000 80=20001 81=x =1 65536=2 1=65536 /udp=1")
	f.Fuzz(func(t *testing.T, text string) {
		ref := snapshot.Ref{Kind: snapshot.Gateway, Namespace: "a", Name: "b"}
		read := parseTargets(ref, text)
		again := parseTargets(ref, formatTargets(read))
		if !maps.Equal(read, again) {
			t.Errorf("%q is %v, and then %v", text, read, again)
		}
		for id, target := range read {
			if id.Port == 0 || target == 0 {
				t.Errorf("%q has %v=%d", text, id, target)
			}
		}
	})
}
