package credential

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/source/address"
)

// RefusedSecret is the refusal of a Secret with the address that it is for. It
// lets a repository that does not open explain which Secret would have been for
// it.
type RefusedSecret struct {
	refusal.Refusal

	url, project string
	scope        Scope
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
		url: f.text("url"), project: f.text("project"), scope: Scope(s.Labels[TypeLabel]),
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
// before one of a prefix. Secrets of other projects are not named.
func (b *Store) Refusal(wanted address.Address, project string) string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	found := -1
	for i, one := range b.refused {
		own, err := address.ParseForeign(one.url)
		switch {
		case err != nil || one.project != "" && one.project != project:
		case one.scope == Repository && same(own, wanted):
			return one.text()
		case one.scope == Prefix && covers(own, wanted) && found < 0:
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
