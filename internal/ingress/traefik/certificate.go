package traefik

import (
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/route"
)

// The headers of Traefik for the certificate of a client, and for fields of it.
const (
	certificateHeader = "X-Forwarded-Tls-Client-Cert"
	infoHeader        = "X-Forwarded-Tls-Client-Cert-Info"
)

// passCertificate converts the forwarding of the certificate of a client. Values are
// escaped one by one; the unescaped header is the same as Traefik's.
func passCertificate(r *record) *route.Policy {
	forward := &route.ForwardCertificate{}
	if r.flag("pem") {
		forward.PEMHeader, forward.Bare = certificateHeader, true
	}
	info := r.inner("info")
	if forward.Subject = nameParts(info.inner("subject")); len(forward.Subject) > 0 {
		forward.Info = append(forward.Info, route.InfoSubject)
	}
	if forward.Issuer = nameParts(info.inner("issuer")); len(forward.Issuer) > 0 {
		forward.Info = append(forward.Info, route.InfoIssuer)
	}
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
	if len(forward.Info) > 0 {
		forward.InfoHeader = infoHeader
	}
	// A policy without content has no use. Other faults, if any, explain why it
	// is empty.
	if len(forward.Info) == 0 && !forward.Bare {
		if len(r.found.faults) == 0 {
			r.found.add(r.path, refusal.Invalid, "nothing is passed on: set pem, or a field of info")
		}
		return nil
	}
	return &route.Policy{ForwardCertificate: forward}
}

// nameParts reads the parts of a name that are passed on. Their names are those of the
// table.
func nameParts(r *record) []route.NamePart {
	var parts []route.NamePart
	for _, part := range route.NameParts() {
		if r.flag(string(part)) {
			parts = append(parts, part)
		}
	}
	r.rest()
	return parts
}
