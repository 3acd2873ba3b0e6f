package route

import (
	"cmp"
	"crypto/tls"
	"net/netip"
	"strconv"
	"strings"

	"slipway.dev/slipway/api/refusal"
)

// Listener is an address on which the edge accepts traffic, besides its entry
// points. It comes and goes with the table. Only rules that name it serve its
// requests: neither those of entry points nor those of other listeners do.
type Listener struct {
	ID ListenerID `json:"id"`
	// Address is where the edge listens. The port need not be that of the ID, where
	// a Service is in front of the edge.
	Address netip.AddrPort `json:"address"`
	// TLS accepts encrypted connections only.
	TLS bool `json:"tls,omitempty"`
	// Raw leaves the connections to TCP routes: one that no route matches is closed,
	// and none is read as HTTP. A listener for UDP is always raw.
	Raw bool `json:"raw,omitempty"`
	// Hosts are the names, wildcards or none that share an encrypted listener. A
	// request belongs to the most specific one; on a connection whose server name
	// belongs to another it gets 421, so that a client cannot pass the TLS of one
	// host with that of another. None makes no difference between hosts.
	Hosts []string `json:"hosts,omitempty"`
	// Certificates are shown to clients, each for a host. Without one the edge
	// shows its own, which no client trusts.
	Certificates []ListenerCertificate `json:"certificates,omitempty"`
	// ClientAuth and ClientAuthorities are as in TLSOptions, for all handshakes.
	ClientAuth        ClientAuth    `json:"clientAuth,omitempty"`
	ClientAuthorities []AuthorityID `json:"clientAuthorities,omitempty"`
}

// ListenerCertificate is a certificate of a listener.
type ListenerCertificate struct {
	Certificate CertificateID `json:"certificate"`
	// Host is a name or a wildcard, or empty for every name that has no other
	// certificate.
	Host string `json:"host,omitempty"`
}

// ListenerID names a listener: a port of a Gateway, which has one address for all
// of its ports.
type ListenerID struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Port is the port that clients connect to.
	Port uint16 `json:"port"`
	// UDP makes it a port of UDP. A Gateway can have the same number for TCP.
	UDP bool `json:"udp,omitempty"`
}

// Compare orders identities by namespace, name, port, TCP before UDP.
func (a ListenerID) Compare(b ListenerID) int {
	return cmp.Or(
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), cmp.Compare(a.Port, b.Port),
		trueLast(a.UDP, b.UDP),
	)
}

// trueLast orders false before true.
func trueLast(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// String is the identity for people: infra/public:80 or infra/public:53/udp.
func (a ListenerID) String() string {
	text := object("", a.Namespace, a.Name) + ":" + strconv.Itoa(int(a.Port))
	if a.UDP {
		text += "/udp"
	}
	return text
}

// check validates the identity in a field.
func (a ListenerID) check(r *report, field string) {
	r.enter(field)
	checkName(r, "name", a.Name)
	checkOptionalName(r, "namespace", a.Namespace)
	if a.Port == 0 {
		r.add("port", refusal.Required, "a listener has a port; give its number")
	}
	r.leave()
}

// Validate returns the problems of the listener on its own. A certificate that is
// not in the table is none: the edge shows its own instead.
func (l *Listener) Validate() []Problem {
	r := report{subject: l.ID}
	l.ID.check(&r, "id")
	if !l.Address.IsValid() || l.Address.Port() == 0 {
		r.add("address", refusal.Required, "a listener has an address and a port, such as 192.0.2.1:80")
	}
	if l.ID.UDP && (l.TLS || !l.Raw) {
		r.add("raw", refusal.Conflict, "datagrams are passed on as they are; set raw, and leave tls out")
	}
	if !l.TLS && len(l.Certificates) > 0 {
		r.add("certificates", refusal.Conflict, "connections are not encrypted; set tls, or leave the certificates out")
	}
	if _, known := clientAuths[l.ClientAuth]; !known || l.ClientAuth != "" && !l.TLS {
		r.add("clientAuth", refusal.Invalid, "it is none of none, request, requireAny, verifyIfGiven, verify, or the listener has no TLS")
	}
	if verifies := l.ClientAuth.Type() >= tls.VerifyClientCertIfGiven; verifies != (len(l.ClientAuthorities) > 0) {
		r.add("clientAuthorities", refusal.Conflict, "client certificates are verified by authorities; set both, or neither")
	}
	for i, host := range l.Hosts {
		if host != "" {
			r.enterItem("hosts", i)
			checkHost(&r, "", host)
			r.leave()
		}
	}
	for i := range l.Certificates {
		if host := l.Certificates[i].Host; host != "" {
			r.enterItem("certificates", i)
			checkHost(&r, "host", host)
			r.leave()
		}
	}
	return r.problems
}
