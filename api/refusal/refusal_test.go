package refusal_test

import (
	"encoding/json"
	"slices"
	"testing"

	"slipway.dev/slipway/api/refusal"
)

func TestText(t *testing.T) {
	t.Parallel()
	web := refusal.Object{Group: "apps", Kind: "Deployment", Namespace: "shop", Name: "web"}
	for want, got := range map[string]string{
		"Deployment.apps shop/web":                   web.String(),
		"object without a kind shop/(no name)":       refusal.Object{Namespace: "shop"}.String(),
		"Namespace shop":                             refusal.Object{Kind: "Namespace", Name: "shop"}.String(),
		"Deployment.apps shop/web: spec.x: it is -1": refusal.New("spec.x", refusal.Invalid, "it is %d", -1).Of(web).Error(),
		"spec.x: no":                                 refusal.New("spec.x", refusal.Invalid, "no").Error(),
		"no":                                         refusal.New("", refusal.Invalid, "no").Error(),
		"a.b: no":                                    refusal.New("b", refusal.Invalid, "no").At("a").Error(),
		"a[1]: no":                                   refusal.New("[1]", refusal.Invalid, "no").At("a").Error(),
		"a: no":                                      refusal.New("a", refusal.Invalid, "no").At("").Error(),
		"a: x; b":                                    refusal.Summary([]refusal.Refusal{{Object: web, Field: "a", Message: "x"}, {Message: "b"}}),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(refusal.Refusal{Object: refusal.Object{Kind: "Ingress", Name: "a"}, Reason: refusal.Conflict, Message: "m"})
	if want := `{"kind":"Ingress","name":"a","reason":"Conflict","message":"m"}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestBounded(t *testing.T) {
	t.Parallel()
	all := []refusal.Refusal{{Message: "1"}, {Message: "2"}, {Field: "f", Message: "3"}, {Message: "4"}}
	if got := refusal.Bounded(all, 4); len(got) != 4 || got[3].Message != "4" {
		t.Errorf("got %v", got)
	}
	got := refusal.Bounded(all, 2)
	if want := "f: this is the first of 2 problems that are not listed: correct those above first"; len(got) != 3 || got[2].Text() != want {
		t.Errorf("got %v", got)
	}
	if all[2].Message != "3" {
		t.Error("the list of the caller was changed")
	}
}

func TestShorten(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{
		{"", ""}, {"abcd", "abcd"}, {"abcde", "abcd..."}, {"abcé", "abc..."}, {"a\xffb", "a?b"},
	} {
		if got := refusal.Shorten(test.text, 4); got != test.want {
			t.Errorf("%q becomes %q, want %q", test.text, got, test.want)
		}
	}
}

// Every part of a refusal counts in the order, the object first.
func TestCompare(t *testing.T) {
	t.Parallel()
	at := func(kind, group, namespace, name, field, reason, message string) refusal.Refusal {
		return refusal.Refusal{Object: refusal.Object{Group: group, Kind: kind, Namespace: namespace, Name: name}, Field: field, Reason: refusal.Reason(reason), Message: message}
	}
	sorted := []refusal.Refusal{
		at("A", "z", "z", "z", "z", "z", "z"), at("B", "a", "z", "z", "z", "z", "z"), at("B", "b", "a", "z", "z", "z", "z"),
		at("B", "b", "b", "a", "z", "z", "z"), at("B", "b", "b", "b", "a", "z", "z"), at("B", "b", "b", "b", "b", "a", "z"),
		at("B", "b", "b", "b", "b", "b", "a"), at("B", "b", "b", "b", "b", "b", "b"),
	}
	mixed := slices.Clone(sorted)
	slices.Reverse(mixed)
	slices.SortFunc(mixed, refusal.Refusal.Compare)
	if !slices.Equal(mixed, sorted) {
		t.Errorf("got %v", mixed)
	}
}
