package route

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestIdentitiesDoNotCollide makes identities from few letters and the
// separators that joined them elsewhere (team-a/x and team/a-x were one there).
// Different ones differ as keys, in order and as text for people.
func TestIdentitiesDoNotCollide(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 14))
	name := func() string {
		var text strings.Builder
		for range 1 + random.IntN(4) {
			text.WriteByte("a-._1"[random.IntN(5)])
		}
		return text.String()
	}
	optional := func() string {
		if random.IntN(2) == 0 {
			return ""
		}
		return name()
	}
	rules := make(map[string]ID)
	backends := make(map[string]BackendID)
	pairs := 0
	for range 100_000 {
		id := ID{Kind: optional(), Namespace: optional(), Name: name(), Rule: random.IntN(12), Path: random.IntN(12), Variant: optional()}
		if other, seen := rules[id.String()]; seen && other != id {
			t.Fatalf("%#v and %#v are both %q", id, other, id)
		} else if seen {
			pairs++
			if id.Compare(other) != 0 {
				t.Fatalf("%#v is not equal to itself", id)
			}
		}
		rules[id.String()] = id
		backend := BackendID{Namespace: id.Namespace, Name: id.Name, Port: uint16(id.Rule), Variant: id.Variant}
		if other, seen := backends[backend.String()]; seen && other != backend {
			t.Fatalf("%#v and %#v are both %q", backend, other, backend)
		}
		backends[backend.String()] = backend
		next := ID{Kind: id.Kind, Namespace: optional(), Name: name(), Rule: id.Rule, Path: id.Path, Variant: id.Variant}
		if (id == next) != (id.Compare(next) == 0) || id.Compare(next) != -next.Compare(id) {
			t.Fatalf("%#v and %#v are ordered wrongly", id, next)
		}
	}
	if pairs == 0 {
		t.Error("no identity came twice: the test shows nothing")
	}
}

func TestIdentityText(t *testing.T) {
	for _, c := range []struct {
		id   fmt.Stringer
		want string
	}{
		{ID{Kind: "Ingress", Namespace: "shop", Name: "cart", Rule: 0, Path: 1, Variant: "redirect"}, "Ingress shop/cart[0][1] redirect"},
		{ID{Name: "cart"}, "cart[0][0]"},
		{TCPRouteID{Namespace: "shop", Name: "db"}, "shop/db[0][0]"},
		{BackendID{Namespace: "shop", Name: "cart", Port: 80, Variant: "tls"}, "shop/cart:80 tls"},
		{CertificateID{Namespace: "shop", Name: "cart"}, "shop/cart"},
		{AuthorityID{Name: "ca"}, "ca"},
		{PolicyID{Kind: "Ingress", Namespace: "shop", Name: "cart", Variant: "limit"}, "Ingress shop/cart limit"},
		{WholeTable{}, "table"},
	} {
		if got := c.id.String(); got != c.want {
			t.Errorf("%#v is %q, want %q", c.id, got, c.want)
		}
	}
}
