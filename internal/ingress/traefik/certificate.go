package traefik

import (
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/route"
)

// infoHeader is the header of Traefik for the fields of a client's certificate.
const infoHeader = "X-Forwarded-Tls-Client-Cert-Info"

// passCertificate forwards the fields that have the same form here, in the order of
// Traefik. It refuses the others: a backend that authenticates clients by them must
// not get a different text.
func passCertificate(r *record) *route.Policy {
	r.refuse("pem", "the header has another form here: use forwardCertificate of a Middleware of slipway.dev, which sends the certificate as escaped PEM")
	info := r.inner("info")
	for _, name := range []string{"subject", "issuer"} {
		refuseParts(info.inner(name))
	}
	forward := &route.ForwardCertificate{InfoHeader: infoHeader}
	for _, field := range []struct {
		name string
		info route.CertificateInfo
	}{
		{"serialNumber", route.InfoSerial},
		{"notBefore", route.InfoNotBefore},
		{"notAfter", route.InfoNotAfter},
		{"sans", route.InfoNames},
	} {
		if info.flag(field.name) {
			forward.Info = append(forward.Info, field.info)
		}
	}
	info.rest()
	r.rest()
	// A policy without content has no use. Other faults, if any, explain why it
	// is empty.
	if len(forward.Info) == 0 {
		if len(r.found.faults) == 0 {
			r.found.add(r.path, refusal.Invalid, "nothing is passed on: set a field of info")
		}
		return nil
	}
	return &route.Policy{ForwardCertificate: forward}
}

// refuseParts refuses the options for single parts of a distinguished name: the
// edge sends the name as a whole.
func refuseParts(r *record) {
	for _, part := range []string{
		"country", "province", "locality", "organization", "organizationalUnit", "commonName", "serialNumber", "domainComponent",
	} {
		r.refuse(part, "parts of a name are not sent: use forwardCertificate of a Middleware of slipway.dev, which sends the whole name")
	}
	r.rest()
}
