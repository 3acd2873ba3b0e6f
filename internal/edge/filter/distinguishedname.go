package filter

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
)

// The results of a verification, in the words of nginx's $ssl_client_verify. A certificate
// that was not verified is a failed one: a backend that reads the header must not trust it.
const (
	verifySuccess    = "SUCCESS"
	verifyNone       = "NONE"
	verifyUnverified = "FAILED:not verified"
)

// The structure of a name (RFC 5280, 4.1.2.4). The suffix SET is for encoding/asn1.
type (
	nameAttribute struct {
		Type  asn1.ObjectIdentifier
		Value asn1.RawValue
	}
	relativeNameSET []nameAttribute
)

// attributeNames are the short names of OpenSSL.
var attributeNames = map[string]string{
	"2.5.4.3": "CN", "2.5.4.4": "SN", "2.5.4.5": "serialNumber", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "street", "2.5.4.10": "O", "2.5.4.11": "OU",
	"2.5.4.12": "title", "2.5.4.13": "description", "2.5.4.17": "postalCode", "2.5.4.41": "name", "2.5.4.42": "GN", "2.5.4.43": "initials", "2.5.4.46": "dnQualifier",
	"2.5.4.65": "pseudonym", "0.9.2342.19200300.100.1.1": "UID", domainComponent: "DC", "1.2.840.113549.1.9.1": "emailAddress",
}

// subjectOf and issuerOf return the names of a certificate as nginx writes them.
func subjectOf(certificate *x509.Certificate) (string, error) {
	return distinguishedName(certificate.RawSubject)
}

func issuerOf(certificate *x509.Certificate) (string, error) {
	return distinguishedName(certificate.RawIssuer)
}

// distinguishedName returns a name as RFC 2253 has it, in the spelling of OpenSSL, which is
// that of nginx: the last part first, and each byte that is not printable ASCII as \XX.
// Backends compare the text with that of a certificate that they know, so no two names may
// have the same one.
func distinguishedName(der []byte) (string, error) {
	var parts []relativeNameSET
	rest, err := asn1.Unmarshal(der, &parts)
	if err != nil {
		return "", fmt.Errorf("parse a name: %w", err)
	}
	if len(rest) > 0 {
		return "", errors.New("parse a name: bytes follow it")
	}
	var b strings.Builder
	for i := len(parts) - 1; i >= 0; i-- {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		for j := len(parts[i]) - 1; j >= 0; j-- {
			if j < len(parts[i])-1 {
				b.WriteByte('+')
			}
			writeAttribute(&b, &parts[i][j])
		}
	}
	return b.String(), nil
}

// writeAttribute writes TYPE=VALUE. The value of an unknown type, or one that is no text, is
// its DER in hexadecimal.
func writeAttribute(b *strings.Builder, attribute *nameAttribute) {
	kind := attribute.Type.String()
	name, known := attributeNames[kind]
	text, isText := attributeText(&attribute.Value)
	if !known {
		name = kind
	}
	b.WriteString(name + "=")
	if !known || !isText {
		b.WriteString("#" + strings.ToUpper(hex.EncodeToString(attribute.Value.FullBytes)))
		return
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ' || c > '~':
			fmt.Fprintf(b, `\%02X`, c)
		case strings.IndexByte(`,+"\<>;`, c) >= 0, c == '#' && i == 0, c == ' ' && (i == 0 || i == len(text)-1):
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
}

// attributeText returns a value as UTF-8, and whether it is text.
func attributeText(value *asn1.RawValue) (string, bool) {
	if value.Class != asn1.ClassUniversal || value.IsCompound {
		return "", false
	}
	switch value.Tag {
	case asn1.TagUTF8String, asn1.TagPrintableString, asn1.TagIA5String, asn1.TagNumericString:
		return string(value.Bytes), true
	case asn1.TagT61String: // Latin-1 in OpenSSL
		runes := make([]rune, len(value.Bytes))
		for i, c := range value.Bytes {
			runes[i] = rune(c)
		}
		return string(runes), true
	case asn1.TagBMPString:
		if len(value.Bytes)%2 != 0 {
			return "", false
		}
		units := make([]uint16, len(value.Bytes)/2)
		for i := range units {
			units[i] = uint16(value.Bytes[2*i])<<8 | uint16(value.Bytes[2*i+1])
		}
		return string(utf16.Decode(units)), true
	}
	return "", false
}
