package credential

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/api/refusal"
)

// RefusedSecret is the refusal of a Secret with the address that it is for. It
// lets a repository that does not open explain which Secret would have been for
// it.
type RefusedSecret struct {
	refusal.Refusal

	url   string
	scope Scope
}

// Refuse describes a Secret that Parse returned an error for. The message names a
// field and never its content.
func Refuse(s *corev1.Secret, err error) RefusedSecret {
	f := fields{secret: s}
	return RefusedSecret{
		Refusal: refusal.Refusal{
			Object: refusal.Object{Kind: "Secret", Namespace: s.Namespace, Name: s.Name},
			Reason: refusal.Invalid, Message: strings.ReplaceAll(err.Error(), "\n", "; "),
		},
		url: f.text("url"), scope: Scope(s.Labels[TypeLabel]),
	}
}

// SetRefused replaces all refused Secrets.
func (b *Store) SetRefused(refused []RefusedSecret) {
	refused = slices.Clone(refused)
	slices.SortFunc(refused, func(x, y RefusedSecret) int { return x.Compare(y.Refusal) })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refused = refused
}

// Refusal is why a Secret for an address is not used, with the name of the Secret;
// empty if no Secret for it is refused. A Secret of exactly this repository goes
// before one of a prefix.
func (b *Store) Refusal(url string) string {
	wanted, err := parseAddress(url)
	if err != nil {
		return ""
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	found := -1
	for i, one := range b.refused {
		own, err := parseAddress(one.url)
		switch {
		case err != nil:
		case one.scope == Repository && own.same(wanted):
			return one.text()
		case one.scope == Prefix && own.covers(wanted) && found < 0:
			found = i
		}
	}
	if found < 0 {
		return ""
	}
	return b.refused[found].text()
}

// text names the Secret and the reason.
func (r *RefusedSecret) text() string {
	return "the " + r.Object.String() + " is refused: " + r.Message
}
