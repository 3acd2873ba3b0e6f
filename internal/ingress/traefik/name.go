package traefik

import (
	"strings"

	"slipway.dev/slipway/api/refusal"
)

// provider is the name of Traefik's provider of custom resources in references.
const provider = "kubernetescrd"

const (
	// Bounds of names in Kubernetes: a label of RFC 1123 for a namespace, a DNS
	// subdomain for other objects.
	maxNamespace = 63
	maxName      = 253
)

// Name is a namespace and a name.
type Name struct {
	Namespace string
	Name      string
}

// Candidates returns the objects that a reference in an annotation can mean, the most
// likely first.
//
// Traefik joins namespace and name with a dash: shop-auth@kubernetescrd. Both
// may have dashes, so a text is ambiguous. The candidate in the own namespace comes
// first, if there is one; it is the only one allowed without allowCrossNamespace.
// With it the caller checks the others too, and refuses a text that matches two
// objects. The newer form shop_auth@kubernetescrd is unambiguous. A text without a
// provider is a name in the own namespace.
//
// Other providers are refused: their objects are not in the cluster.
func Candidates(text, ownNamespace string) ([]Name, *refusal.Refusal) {
	joined, from, qualified := strings.Cut(text, "@")
	switch {
	case !qualified:
		if !validName(text) {
			return nil, noName(text)
		}
		return []Name{{ownNamespace, text}}, nil
	case from != provider:
		return nil, refusal.New("", refusal.Unsupported,
			"%s names something of the provider %s, which is not read: declare it as an object in the cluster, and name it NAMESPACE-NAME@%s",
			brief(text), brief(from), provider)
	// No valid reference is longer, and splits takes quadratic time.
	case len(joined) > maxNamespace+1+maxName:
		return nil, noName(text)
	}
	names := splits(joined, ownNamespace)
	if len(names) == 0 {
		return nil, noName(text)
	}
	return names, nil
}

// splits returns all ways to split a text into namespace and name, the own
// namespace first. The length of the text bounds their number.
func splits(joined, ownNamespace string) []Name {
	if namespace, name, safe := strings.Cut(joined, "_"); safe {
		if validNamespace(namespace) && validName(name) {
			return []Name{{namespace, name}}
		}
		return nil
	}
	var names []Name
	// The loop below skips the own namespace, so that it is listed once.
	if name, own := strings.CutPrefix(joined, ownNamespace+"-"); own && validName(name) {
		names = append(names, Name{ownNamespace, name})
	}
	for i := range len(joined) {
		if joined[i] != '-' || joined[:i] == ownNamespace {
			continue
		}
		if namespace, name := joined[:i], joined[i+1:]; validNamespace(namespace) && validName(name) {
			names = append(names, Name{namespace, name})
		}
	}
	return names
}

// noName returns the fault of a text that is not a reference.
func noName(text string) *refusal.Refusal {
	return refusal.New("", refusal.Invalid,
		"%q is no name: write NAMESPACE-NAME@%s, or the name of an object in the same namespace", brief(text), provider)
}

// validNamespace reports whether a text has the form of a namespace's name.
func validNamespace(text string) bool {
	return len(text) <= maxNamespace && validName(text) && !strings.Contains(text, ".")
}

// validName reports whether a text has the form of an object's name. It is the
// form of a DNS subdomain, without the rule that labels are not empty: no
// object has such a name, so a lookup finds none.
func validName(text string) bool {
	if text == "" || len(text) > maxName {
		return false
	}
	for i := range len(text) {
		c := text[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			continue
		}
		if c != '-' && c != '.' || i == 0 || i == len(text)-1 {
			return false
		}
	}
	return true
}
