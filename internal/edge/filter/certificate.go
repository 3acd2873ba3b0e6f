package filter

import (
	"crypto/x509"
	"encoding/pem"
	"hash/maphash"
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
	// pem and info are patterns of the headers; those with a name are sent.
	pem, info         h1.Edit
	sendPEM, sendInfo bool
	fields            []route.CertificateInfo
	seed              maphash.Seed
	// slots cache the headers of certificates, because a client sends many requests
	// and encoding is slow. A collision evicts; readers need no lock.
	slots [certificateSlots]atomic.Pointer[certificateEdits]
}

// certificateEdits are the headers of one certificate.
type certificateEdits struct {
	certificate *x509.Certificate
	edits       []h1.Edit
}

func newForwardCertificate(a *route.ForwardCertificate) (*forwardCertificate, error) {
	f := &forwardCertificate{
		sendPEM: a.PEMHeader != "", sendInfo: a.InfoHeader != "",
		fields: a.Info, seed: maphash.MakeSeed(),
	}
	if f.sendPEM && f.sendInfo && normalize.SameField([]byte(a.PEMHeader), []byte(a.InfoHeader)) {
		return nil, invalid("infoHeader", "%s is the name of the other header too; give it its own", a.InfoHeader)
	}
	for _, header := range []struct {
		field, name string
		pattern     *h1.Edit
	}{{"pemHeader", a.PEMHeader, &f.pem}, {"infoHeader", a.InfoHeader, &f.info}} {
		if header.name == "" {
			continue
		}
		removal, err := h1.RemoveField(header.name)
		if err != nil {
			return nil, invalid(header.field, "%v", err)
		}
		f.removals = append(f.removals, removal)
		if *header.pattern, err = h1.SetField(header.name, ""); err != nil {
			return nil, invalid(header.field, "%v", err)
		}
	}
	return f, nil
}

// Request implements [Filter].
func (f *forwardCertificate) Request(x *Exchange) *LocalResponse {
	x.RequestEdits = append(x.RequestEdits, f.removals...)
	if x.Certificate == nil {
		return nil
	}
	slot := &f.slots[maphash.Bytes(f.seed, x.Certificate.Signature)%certificateSlots]
	known := slot.Load()
	if known == nil || !known.certificate.Equal(x.Certificate) {
		edits, err := f.describe(x.Certificate)
		if err != nil {
			return badCertificate
		}
		known = &certificateEdits{certificate: x.Certificate, edits: edits}
		slot.Store(known)
	}
	x.RequestEdits = append(x.RequestEdits, known.edits...)
	return nil
}

// describe encodes a certificate into headers.
func (f *forwardCertificate) describe(certificate *x509.Certificate) ([]h1.Edit, error) {
	var edits []h1.Edit
	if f.sendPEM {
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
		edit, err := f.pem.With(escaped(string(block)))
		if err != nil {
			return nil, err
		}
		edits = append(edits, edit)
	}
	if f.sendInfo {
		edit, err := f.info.With(certificateInfo(certificate, f.fields))
		if err != nil {
			return nil, err
		}
		edits = append(edits, edit)
	}
	return edits, nil
}

// certificateInfo lists fields as Subject="...";NA="...". Each value is escaped
// on its own, so that no name in a certificate can pose as another field.
func certificateInfo(certificate *x509.Certificate, fields []route.CertificateInfo) string {
	var parts []string
	add := func(name, value string) { parts = append(parts, name+`="`+value+`"`) }
	for _, field := range fields {
		switch field {
		case route.InfoSubject:
			add("Subject", escaped(certificate.Subject.String()))
		case route.InfoIssuer:
			add("Issuer", escaped(certificate.Issuer.String()))
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
