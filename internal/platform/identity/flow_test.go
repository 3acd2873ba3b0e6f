package identity

import (
	"testing"
	"time"
)

// A flow is read by who sealed it, unchanged and in time.
func TestFlowBox(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	box, other := newFlowSealer([32]byte{1}), newFlowSealer([32]byte{2})
	sealed, err := box.seal(flow{State: "s", Verifier: "v", Expires: now.Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	if opened, err := box.open(sealed, now); err != nil || opened.Verifier != "v" {
		t.Errorf("%v %v", opened, err)
	}
	if _, err := other.open(sealed, now); err == nil {
		t.Error("another key opens it")
	}
	if _, err := box.open(sealed, now.Add(time.Minute)); err == nil {
		t.Error("it does not expire")
	}
	for n := range sealed {
		changed := []byte(sealed)
		changed[n] ^= 1
		if _, err := box.open(string(changed), now); err == nil && string(changed) != sealed {
			t.Fatalf("changed at %d it still opens", n)
		}
	}
}

// FuzzFlowBox: a flow cannot be forged without the key.
func FuzzFlowBox(f *testing.F) {
	box := newFlowSealer([32]byte{1})
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := box.open(text, time.Unix(0, 0)); err == nil {
			t.Errorf("%q opens", text)
		}
	})
}
