package annotation

import (
	"bytes"
	"strings"
	"testing"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/must"
)

// TestKeys: every key has a description, is found under its own name, and its
// example is taken, unless it is not supported.
func TestKeys(t *testing.T) {
	both := declared()
	for _, object := range []*object{both.ingress, both.service} {
		for _, k := range object.keys {
			if k.meaning == "" || k.form == "" || k.otherwise == "" || k.example == "" || k.read == nil {
				t.Errorf("%s is not described in full", k.name)
			}
			name := strings.ReplaceAll(k.name, ".n.", ".0.")
			if object.find(name).key != k || !snapshot.Annotation(name) {
				t.Errorf("%s is not found", name)
			}
			given := map[string]string{name: k.example}
			switch {
			case strings.HasSuffix(name, ".sans"):
				given[strings.Replace(name, ".sans", ".main", 1)] = "example.com"
			case strings.HasSuffix(name, "/balance-hash"):
				given[ownPrefix+"balance"] = "hash"
			}
			var faults []refusal.Refusal
			if object == both.ingress {
				_, faults = ParseIngress(given)
			} else {
				_, faults = ParseService(given)
			}
			refused := len(faults) == 1 && faults[0].Reason == refusal.Unsupported
			if supported := !strings.Contains(k.meaning, "Not supported"); supported && len(faults) > 0 || !supported && !refused {
				t.Errorf("%s: %s: %v", name, k.example, faults)
			}
		}
	}
}

// TestReferenceIsComplete: every key and every filter is on the page.
func TestReferenceIsComplete(t *testing.T) {
	var page bytes.Buffer
	must.Do(t, WriteReference(&page))
	both := declared()
	for _, k := range append(both.ingress.keys, both.service.keys...) {
		name, traefik := strings.CutPrefix(k.name, traefikPrefix)
		if !strings.Contains(page.String(), "`"+name+"`") || !traefik && !strings.HasPrefix(name, ownPrefix) {
			t.Errorf("%s is not on the page", k.name)
		}
	}
	for name := range filterFields() {
		if !strings.Contains(page.String(), "\n#### "+name+"\n") {
			t.Errorf("%s has no section", name)
		}
	}
}
