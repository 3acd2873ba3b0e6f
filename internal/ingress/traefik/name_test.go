package traefik_test

import (
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/traefik"
)

func TestCandidates(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, test := range []struct {
		text   string
		want   string
		reason refusal.Reason
	}{
		{text: "auth", want: "team-a/auth"},
		{text: "team-a-auth", want: "team-a/team-a-auth"},
		{text: "default-auth@kubernetescrd", want: "default/auth"},
		{text: "team-a-auth@kubernetescrd", want: "team-a/auth team/a-auth"},
		{text: "team-a-my-auth@kubernetescrd", want: "team-a/my-auth team/a-my-auth team-a-my/auth"},
		{text: "x-team-a-auth@kubernetescrd", want: "x/team-a-auth x-team/a-auth x-team-a/auth"},
		{text: "team-a_my-auth@kubernetescrd", want: "team-a/my-auth"},
		{text: "default-v1.auth@kubernetescrd", want: "default/v1.auth"},
		{text: "a--b@kubernetescrd", reason: refusal.Invalid},
		{text: "v1.x-auth@kubernetescrd", reason: refusal.Invalid},
		{text: long + "-x@kubernetescrd", want: long + "/x"},
		{text: long + "a-x@kubernetescrd", reason: refusal.Invalid},
		{text: "auth@kubernetescrd", reason: refusal.Invalid},
		{text: "_auth@kubernetescrd", reason: refusal.Invalid},
		{text: "a_b_c@kubernetescrd", reason: refusal.Invalid},
		{text: "@kubernetescrd", reason: refusal.Invalid},
		{text: "", reason: refusal.Invalid},
		{text: "other/auth", reason: refusal.Invalid},
		{text: "Auth", reason: refusal.Invalid},
		{text: strings.Repeat("a-", 400) + "a@kubernetescrd", reason: refusal.Invalid},
		{text: "auth@file", reason: refusal.Unsupported},
		{text: "auth@", reason: refusal.Unsupported},
		{text: "shop-auth@kubernetescrd@file", reason: refusal.Unsupported},
	} {
		names, fault := traefik.Candidates(test.text, "team-a")
		var got []string
		for _, name := range names {
			got = append(got, name.Namespace+"/"+name.Name)
		}
		switch {
		case fault == nil && test.reason != "":
			t.Errorf("%q: no fault, %q", test.text, got)
		case fault != nil && fault.Reason != test.reason:
			t.Errorf("%q: %v", test.text, fault)
		case strings.Join(got, " ") != test.want:
			t.Errorf("%q: got %q, want %q", test.text, got, test.want)
		}
	}
}

// FuzzCandidates: the own namespace comes first, nothing comes twice, and every
// name gives the text again.
func FuzzCandidates(f *testing.F) {
	for _, text := range []string{"auth", "team-a-auth@kubernetescrd", "a_b@kubernetescrd", "a@file", "-@kubernetescrd", "a--b@kubernetescrd"} {
		f.Add(text, "team-a")
	}
	f.Fuzz(func(t *testing.T, text, own string) {
		names, fault := traefik.Candidates(text, own)
		if (fault == nil) == (len(names) == 0) {
			t.Fatalf("names %v and fault %v", names, fault)
		}
		joined, _, qualified := strings.Cut(text, "@")
		for i, name := range names {
			if name.Namespace == own && i > 0 {
				t.Errorf("the own namespace is not first in %v", names)
			}
			if slices.Contains(names[:i], name) {
				t.Errorf("%v is there twice", name)
			}
			if qualified && joined != name.Namespace+"-"+name.Name && joined != name.Namespace+"_"+name.Name {
				t.Errorf("%q is not %v", text, name)
			}
		}
	})
}
