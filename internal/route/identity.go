package route

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Identity names one element of a table. It is one of ListenerID, ID, TCPRouteID,
// BackendID, CertificateID, AuthorityID, TLSOptionsID and WholeTable, which are
// all comparable. Text made from it is for people.
type Identity interface {
	fmt.Stringer
	// kind is the word for such an element in messages.
	kind() string
}

// ID names a rule: the object it comes from, and its place in it.
type ID struct {
	// Kind is the kind of the object, such as Ingress; empty in a file.
	Kind string `json:"kind,omitempty"`
	// Namespace is empty in a file, and only there. So
	// elements of a file and of a cluster never have the same identity.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Rule and Path are the positions in the object, from 0.
	Rule int `json:"rule,omitempty"`
	Path int `json:"path,omitempty"`
	// Variant distinguishes the rules that one path needs, such as redirect and
	// canary, and those for further hosts and listeners; it is empty for the plain
	// one.
	Variant string `json:"variant,omitempty"`
}

// Compare orders identities by namespace, name, rule, path, kind, variant.
func (a ID) Compare(b ID) int {
	return cmp.Or(
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
		cmp.Compare(a.Rule, b.Rule),
		cmp.Compare(a.Path, b.Path),
		strings.Compare(a.Kind, b.Kind),
		strings.Compare(a.Variant, b.Variant),
	)
}

// String is the identity for people: Ingress shop/cart[0][1] redirect.
func (a ID) String() string {
	return object(a.Kind, a.Namespace, a.Name) +
		"[" + strconv.Itoa(a.Rule) + "][" + strconv.Itoa(a.Path) + "]" + variant(a.Variant)
}

// TCPRouteID names a TCP route. It has the parts of an ID and a type of its
// own, so that a rule and a TCP route are never mistaken for each other.
type TCPRouteID ID

// Compare orders as [ID.Compare] does.
func (a TCPRouteID) Compare(b TCPRouteID) int { return ID(a).Compare(ID(b)) }

// String is the identity for people.
func (a TCPRouteID) String() string { return ID(a).String() }

// BackendID names a backend: a port of a Service.
type BackendID struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Port is the number of the Service's port. A port that was given by name
	// is resolved first, or one port would have two pools.
	Port uint16 `json:"port,omitempty"`
	// Variant distinguishes the uses of one port, such as with different
	// transports; it is empty for the plain one.
	Variant string `json:"variant,omitempty"`
}

// Compare orders identities by namespace, name, port, variant.
func (a BackendID) Compare(b BackendID) int {
	return cmp.Or(
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
		cmp.Compare(a.Port, b.Port),
		strings.Compare(a.Variant, b.Variant),
	)
}

// String is the identity for people: shop/cart:80 tls.
func (a BackendID) String() string {
	return object("", a.Namespace, a.Name) + ":" + strconv.Itoa(int(a.Port)) + variant(a.Variant)
}

// CertificateID names a certificate with its key: a Secret.
type CertificateID struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Compare orders identities by namespace and name.
func (a CertificateID) Compare(b CertificateID) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// String is the identity for people.
func (a CertificateID) String() string { return object("", a.Namespace, a.Name) }

// AuthorityID names a bundle of certificate authorities.
type AuthorityID CertificateID

// Compare orders as [CertificateID.Compare] does.
func (a AuthorityID) Compare(b AuthorityID) int { return CertificateID(a).Compare(CertificateID(b)) }

// String is the identity for people.
func (a AuthorityID) String() string { return CertificateID(a).String() }

// TLSOptionsID names the options of handshakes.
type TLSOptionsID CertificateID

// Compare orders as [CertificateID.Compare] does.
func (a TLSOptionsID) Compare(b TLSOptionsID) int { return CertificateID(a).Compare(CertificateID(b)) }

// String is the identity for people.
func (a TLSOptionsID) String() string { return CertificateID(a).String() }

// PolicyID names the declaration of a policy. The counts of a policy are keyed by
// it: all rules with the policy share them, and they survive a change of the table.
type PolicyID struct {
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Variant distinguishes the policies that one object declares.
	Variant string `json:"variant,omitempty"`
}

// String is the identity for people.
func (a PolicyID) String() string {
	return object(a.Kind, a.Namespace, a.Name) + variant(a.Variant)
}

// WholeTable is the subject of problems that belong to no single element.
type WholeTable struct{}

// String is "table".
func (WholeTable) String() string { return "table" }

// kindOrder is the order of problems by the kind of their subject.
var kindOrder = []string{
	WholeTable{}.kind(), ListenerID{}.kind(), ID{}.kind(), TCPRouteID{}.kind(), BackendID{}.kind(),
	CertificateID{}.kind(), AuthorityID{}.kind(), TLSOptionsID{}.kind(),
}

func (WholeTable) kind() string    { return "routing" }
func (ListenerID) kind() string    { return "listener" }
func (ID) kind() string            { return "rule" }
func (TCPRouteID) kind() string    { return "TCP route" }
func (BackendID) kind() string     { return "backend" }
func (CertificateID) kind() string { return "certificate" }
func (AuthorityID) kind() string   { return "authority" }
func (TLSOptionsID) kind() string  { return "TLS options" }

func object(kind, namespace, name string) string {
	if kind != "" {
		kind += " "
	}
	if namespace != "" {
		namespace += "/"
	}
	return kind + namespace + name
}

func variant(v string) string {
	if v == "" {
		return ""
	}
	return " " + v
}
