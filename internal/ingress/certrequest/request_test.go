package certrequest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/route"
)

// TestSecretName: it follows from the resolver and the set of hosts, is a name
// that a Secret can have, and no two requests share one.
func TestSecretName(t *testing.T) {
	name := SecretName("le", []string{"a.example", "b.example"})
	if len(name) != len("acme-")+16 || !strings.HasPrefix(name, "acme-") {
		t.Errorf("the name is %q", name)
	}
	if other := SecretName("le", []string{"b.example", "a.example"}); other != name {
		t.Errorf("the order of the hosts changes it to %q", other)
	}
	for _, other := range []string{
		SecretName("staging", []string{"a.example", "b.example"}), SecretName("le", []string{"a.example"}), SecretName("le", []string{"a.example,b.example"}),
	} {
		if other == name {
			t.Errorf("another request has the name %q too", name)
		}
	}
}

func TestFetched(t *testing.T) {
	labels := map[string]string{ManagedLabel: ManagedValue, PurposeLabel: PurposeCertificate}
	annotations := map[string]string{ResolverAnnotation: "le", HostsAnnotation: "b.example,a.example"}
	hosts := []string{"a.example", "b.example"}
	if !IssuedFor(labels, annotations, "le", hosts) {
		t.Error("one that was made for the request is not recognised")
	}
	if IssuedFor(nil, annotations, "le", hosts) || IssuedFor(labels, nil, "le", hosts) || IssuedFor(labels, annotations, "own", hosts) || IssuedFor(labels, annotations, "le", hosts[:1]) {
		t.Error("one that is somebody else's, or for something else, is taken for it")
	}
}

// FuzzChallengeRules: whatever is in the Secret, a rule is for one path of one
// host, and valid.
func FuzzChallengeRules(f *testing.F) {
	f.Add("token", Challenge{Host: "a.example", EntryPoint: "web", KeyAuthorization: "token.thumb", Created: time.Unix(1, 0)}.Encode())
	f.Add("..", []byte(`{"host":"*.example","entryPoint":"web","answer":"x"}`))
	f.Add("a/../b", []byte(`{"host":"a.example","entryPoint":"web","answer":""}`))
	f.Add("t", []byte(`null`))
	f.Add("dns", Challenge{Host: "a.example", Record: "_acme-challenge.a.example.", KeyAuthorization: "x", Resolver: "dns", Created: time.Unix(1, 0)}.Encode())
	f.Fuzz(func(t *testing.T, token string, value []byte) {
		rules, bad := ChallengeRules("home", map[string][]byte{token: value}, func(string) []route.ListenerID { return nil })
		want := 1
		if c, err := DecodeChallenge(value); err == nil && c.Record != "" {
			want = 0 // a TXT record is not served
		}
		if len(rules)+len(bad) != want {
			t.Fatalf("%d rules and %q", len(rules), bad)
		}
		for _, rule := range rules {
			if problems := rule.Validate(); len(problems) > 0 {
				t.Fatalf("%v", problems)
			}
			got, ok := TokenOf(rule)
			if !ok || got != token || rule.Host == "" || strings.HasPrefix(rule.Host, "*") || !slices.Equal(rule.Match.Methods, nil) {
				t.Fatalf("%+v for %q", rule, token)
			}
		}
	})
}
