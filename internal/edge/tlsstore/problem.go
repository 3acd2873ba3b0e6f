package tlsstore

import (
	"cmp"
	"slices"
	"strings"
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

// Kind is what a problem is about.
type Kind uint8

// The kinds of problems.
const (
	KindCertificate Kind = iota
	KindOptions
)

// Reason is a problem in one word, for a status or a metric.
type Reason string

// The reasons for a problem.
const (
	ReasonUnreadable  Reason = "Unreadable"      // no PEM, no X.509, or the key is not the certificate's
	ReasonTooLarge    Reason = "TooLarge"        // beyond the limits on size, chain or key
	ReasonKeyType     Reason = "KeyType"         // a kind of key that TLS does not use
	ReasonNoNames     Reason = "NoNames"         // no DNS name to use it for
	ReasonBadHost     Reason = "BadHost"         // a host that is no DNS name
	ReasonNotCovered  Reason = "HostNotCovered"  // a host that the certificate is not made for
	ReasonHostOwned   Reason = "HostOwned"       // a host that belongs to another namespace
	ReasonExpired     Reason = "Expired"         // used only as long as nothing better covers the host
	ReasonNotYetValid Reason = "NotYetValid"     // the same
	ReasonBadOptions  Reason = "BadOptions"      // options that contradict themselves or cannot be read
	ReasonConflict    Reason = "OptionsConflict" // two different options for one host
)

// Problem is a part of an input that is not served as configured, with the
// reason.
type Problem struct {
	Kind   Kind
	Object ID
	// Host is the host concerned; empty when it is the whole object.
	Host   string
	Reason Reason
	// Message is what is wrong and what to do.
	Message string
	// Served is true when the hosts are served nevertheless: with an expired
	// certificate, or with the object's last good one.
	Served bool
}

// String is the problem for people.
func (p Problem) String() string {
	what := "certificate "
	if p.Kind == KindOptions {
		what = "TLS options "
	}
	return what + p.Object.String() + ": " + p.Message
}

// sortProblems sorts problems, so that every replica reports them in the same
// order.
func sortProblems(problems []Problem) {
	slices.SortFunc(problems, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.Kind, b.Kind),
			a.Object.Compare(b.Object),
			strings.Compare(a.Host, b.Host),
			strings.Compare(string(a.Reason), string(b.Reason)),
			strings.Compare(a.Message, b.Message),
		)
	})
}
