package filter

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
)

// certificateSlots bounds the certificates whose headers are cached.
const certificateSlots = 16

// badCertificate is the response to a client whose certificate cannot be written
// into headers.
var badCertificate = &LocalResponse{Status: 400, Reason: "BadCertificate"}

// forwardCertificate passes the client's certificate on to the backend. It removes
// the client's own headers of these names in any case: they could be forged.
type forwardCertificate struct {
	removals []h1.Edit
	headers  []certificateHeader
	// absent are the headers of a client without a certificate.
	absent []h1.Edit
	policy *route.ForwardCertificate
	seed   maphash.Seed
	// slots cache the headers of certificates, because a client sends many requests
	// and encoding is slow. A collision evicts; readers need no lock.
	slots [certificateSlots]atomic.Pointer[certificateEdits]
}

// certificateHeader is a header with a part of a certificate.
type certificateHeader struct {
	pattern h1.Edit
	text    func(*x509.Certificate) (string, error)
}

// certificateEdits are the headers of one certificate.
type certificateEdits struct {
	certificate *x509.Certificate
	edits       []h1.Edit
}

func newForwardCertificate(a *route.ForwardCertificate) (*forwardCertificate, error) {
	f := &forwardCertificate{policy: a, seed: maphash.MakeSeed()}
	var names []string
	for _, header := range []struct {
		field, name string
		text        func(*x509.Certificate) (string, error)
	}{
		{"pemHeader", a.PEMHeader, f.pemText},
		{"infoHeader", a.InfoHeader, func(c *x509.Certificate) (string, error) { return certificateInfo(c, a), nil }},
		{"verifyHeader", a.VerifyHeader, f.verifyText},
		{"subjectHeader", a.SubjectHeader, subjectOf},
		{"issuerHeader", a.IssuerHeader, issuerOf},
	} {
		if header.name == "" {
			continue
		}
		if slices.ContainsFunc(names, func(other string) bool { return normalize.SameField([]byte(other), []byte(header.name)) }) {
			return nil, invalid(header.field, "%s is the name of the other header too; give it its own", header.name)
		}
		names = append(names, header.name)
		removal, err := h1.RemoveField(header.name)
		if err != nil {
			return nil, invalid(header.field, "%v", err)
		}
		pattern, err := h1.SetField(header.name, "")
		if err != nil {
			return nil, invalid(header.field, "%v", err)
		}
		f.removals = append(f.removals, removal)
		f.headers = append(f.headers, certificateHeader{pattern: pattern, text: header.text})
	}
	if a.VerifyHeader != "" {
		none, err := h1.SetField(a.VerifyHeader, verifyNone)
		if err != nil {
			return nil, invalid("verifyHeader", "%v", err)
		}
		f.absent = append(f.absent, none)
	}
	return f, nil
}

// Request implements [Filter].
func (f *forwardCertificate) Request(x *Exchange) *LocalResponse {
	x.RequestEdits = append(x.RequestEdits, f.removals...)
	certificate := x.Certificate.Verified
	if f.policy.Unverified {
		certificate = x.Certificate.Presented
	}
	if certificate == nil {
		x.RequestEdits = append(x.RequestEdits, f.absent...)
		return nil
	}
	slot := &f.slots[maphash.Bytes(f.seed, certificate.Signature)%certificateSlots]
	known := slot.Load()
	if known == nil || !known.certificate.Equal(certificate) {
		edits, err := f.describe(certificate)
		if err != nil {
			return badCertificate
		}
		known = &certificateEdits{certificate: certificate, edits: edits}
		slot.Store(known)
	}
	x.RequestEdits = append(x.RequestEdits, known.edits...)
	return nil
}

// describe encodes a certificate into headers.
func (f *forwardCertificate) describe(certificate *x509.Certificate) ([]h1.Edit, error) {
	var edits []h1.Edit
	for i := range f.headers {
		text, err := f.headers[i].text(certificate)
		if err != nil {
			return nil, err
		}
		if text == "" {
			continue // as nginx, which sends no empty header
		}
		edit, err := f.headers[i].pattern.With(text)
		if err != nil {
			return nil, err
		}
		edits = append(edits, edit)
	}
	return edits, nil
}

// pemText returns the certificate itself.
func (f *forwardCertificate) pemText(certificate *x509.Certificate) (string, error) {
	if f.policy.Bare {
		return base64.StdEncoding.EncodeToString(certificate.Raw), nil
	}
	return escaped(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}))), nil
}

// verifyText returns the result of the verification, which was part of the handshake.
func (f *forwardCertificate) verifyText(*x509.Certificate) (string, error) {
	if f.policy.Unverified {
		return verifyUnverified, nil
	}
	return verifySuccess, nil
}

// certificateInfo lists fields as Subject="...";NA="...". Each value is escaped
// on its own, so that no name in a certificate can pose as another field.
func certificateInfo(certificate *x509.Certificate, policy *route.ForwardCertificate) string {
	var parts []string
	add := func(name, value string) { parts = append(parts, name+`="`+value+`"`) }
	name := func(field string, of *pkix.Name, wanted []route.NamePart) {
		if text := nameText(of, wanted); text != "" || len(wanted) == 0 {
			add(field, escaped(text))
		}
	}
	for _, field := range policy.Info {
		switch field {
		case route.InfoSubject:
			name("Subject", &certificate.Subject, policy.Subject)
		case route.InfoIssuer:
			name("Issuer", &certificate.Issuer, policy.Issuer)
		case route.InfoSerial:
			serial := ""
			if certificate.SerialNumber != nil {
				serial = certificate.SerialNumber.String()
			}
			add("SerialNumber", serial)
		case route.InfoNotBefore:
			add("NB", strconv.FormatInt(certificate.NotBefore.Unix(), 10))
		case route.InfoNotAfter:
			add("NA", strconv.FormatInt(certificate.NotAfter.Unix(), 10))
		case route.InfoNames:
			add("SAN", strings.Join(certificateNames(certificate), ","))
		}
	}
	return strings.Join(parts, ";")
}

// domainComponent is the identifier of a DC in a name (RFC 2247).
const domainComponent = "0.9.2342.19200300.100.1.25"

// nameText returns the wanted parts of a name, all of it for none.
func nameText(name *pkix.Name, wanted []route.NamePart) string {
	if len(wanted) == 0 {
		return name.String()
	}
	var components []string
	for _, attribute := range name.Names {
		if text, ok := attribute.Value.(string); ok && attribute.Type.String() == domainComponent {
			components = append(components, text)
		}
	}
	var parts []string
	for _, part := range route.NameParts() {
		key, values := "", []string(nil)
		switch part {
		case route.PartDomainComponent:
			key, values = "DC", components
		case route.PartCountry:
			key, values = "C", name.Country
		case route.PartProvince:
			key, values = "ST", name.Province
		case route.PartLocality:
			key, values = "L", name.Locality
		case route.PartOrganization:
			key, values = "O", name.Organization
		case route.PartOrganizationalUnit:
			key, values = "OU", name.OrganizationalUnit
		case route.PartSerialNumber:
			key, values = "SN", []string{name.SerialNumber}
		case route.PartCommonName:
			key, values = "CN", []string{name.CommonName}
		}
		for _, value := range values {
			if value != "" && slices.Contains(wanted, part) {
				parts = append(parts, key+"="+value)
			}
		}
	}
	return strings.Join(parts, ",")
}

// certificateNames returns the alternative names of the subject, escaped.
func certificateNames(certificate *x509.Certificate) []string {
	var names []string
	for _, name := range certificate.DNSNames {
		names = append(names, escaped(name))
	}
	for _, name := range certificate.EmailAddresses {
		names = append(names, escaped(name))
	}
	for _, name := range certificate.IPAddresses {
		names = append(names, escaped(name.String()))
	}
	for _, name := range certificate.URIs {
		names = append(names, escaped(name.String()))
	}
	return names
}

// escaped writes everything but unreserved characters as %XX.
func escaped(text string) string {
	const hex = "0123456789ABCDEF"
	out := make([]byte, 0, len(text)+len(text)/4)
	for i := range len(text) {
		c := text[i]
		if c|0x20-'a' < 26 || c-'0' < 10 || strings.IndexByte("-._~", c) >= 0 {
			out = append(out, c)
		} else {
			out = append(out, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(out)
}
