package tlsstore

import (
	"cmp"
	"strings"

	"slipway.dev/slipway/api/refusal"
)

// ID names the object that a certificate or options come from. It is a struct
// so that no two objects ever share one.
type ID struct {
	Namespace string
	Name      string
}

// Compare orders identities by namespace and name.
func (a ID) Compare(b ID) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// String is the identity for people.
func (a ID) String() string {
	if a.Namespace == "" {
		return a.Name
	}
	return a.Namespace + "/" + a.Name
}

// The kinds of the objects of problems, as words for messages.
const (
	KindCertificate = "certificate"
	KindOptions     = "TLS options"
)

// The reasons for a problem, besides those that all packages share.
const (
	ReasonKeyType     refusal.Reason = "KeyType"         // a kind of key that TLS does not use
	ReasonNoNames     refusal.Reason = "NoNames"         // no DNS name to use it for
	ReasonBadHost     refusal.Reason = "BadHost"         // a host that is no DNS name
	ReasonNotCovered  refusal.Reason = "HostNotCovered"  // a host that the certificate is not made for
	ReasonHostOwned   refusal.Reason = "HostOwned"       // a host that belongs to another namespace
	ReasonExpired     refusal.Reason = "Expired"         // used only as long as nothing better covers the host
	ReasonNotYetValid refusal.Reason = "NotYetValid"     // the same
	ReasonBadOptions  refusal.Reason = "BadOptions"      // options that contradict themselves or cannot be read
	ReasonConflict    refusal.Reason = "OptionsConflict" // two different options for one host
)

// Problem is a part of an input that is not served as configured. Its field is the
// host concerned; empty when it is the whole object.
type Problem struct {
	refusal.Refusal
	// Served is true when the hosts are served nevertheless: with an expired
	// certificate, or with the object's last good one.
	Served bool
}

// object returns the identity as the object of a refusal.
func (a ID) object(kind string) refusal.Object {
	return refusal.Object{Kind: kind, Namespace: a.Namespace, Name: a.Name}
}
