package v1alpha1

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/api/declare"
)

// The forms of the scalars that their own parsers take more than. The schemas
// have them too, so that the API server and the edge agree.
var (
	durationForm = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`)
	portForm     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
)

// Duration is a time span that is written as text, such as 1m30s.
type Duration time.Duration

// Form implements [declare.Scalar].
func (Duration) Form() declare.Form {
	return declare.Form{Name: "time such as `10s`", Pattern: durationForm.String()}
}

// String is the text form.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText is the text form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a span that is not negative. A number needs a unit.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil || !durationForm.Match(text) {
		return errors.New("it is not a time: write a number and a unit, such as 500ms, 10s or 1m30s")
	}
	*d = Duration(parsed)
	return nil
}

// Size is a number of bytes. It is written as a number, or with a unit such as
// 10Mi.
type Size int64

// Form implements [declare.Scalar].
func (Size) Form() declare.Form {
	return declare.Form{Name: "size such as `10Mi`, or a number of bytes", Pattern: `^[0-9]+([kMGT]|[KMGT]i)?$`, Number: true}
}

// UnmarshalText reads a number with or without a unit.
func (s *Size) UnmarshalText(text []byte) error {
	digits := strings.TrimRight(string(text), "kKMGTi")
	unit, known := sizeUnits[string(text)[len(digits):]]
	number, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || !known {
		return errors.New("it is not a size: write a number of bytes, or one with a unit, such as 512Ki, 10Mi or 1G")
	}
	// The multiplication below must not overflow.
	if int64(number) > math.MaxInt64/unit {
		return errors.New("the size is too large")
	}
	*s = Size(int64(number) * unit)
	return nil
}

// sizeUnits are the factors of units, with the suffixes of Kubernetes
// quantities: decimal without i, binary with it.
var sizeUnits = map[string]int64{
	"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40,
}

// Expression is a regular expression. It is a type of its own because it can
// have commas, which part the elements of other lists in a
// short form.
type Expression string

// StatusRange is a range of HTTP statuses, written 500-599, or one status.
type StatusRange struct{ From, To int }

// Form implements [declare.Scalar].
func (StatusRange) Form() declare.Form {
	return declare.Form{Name: "status or range such as `500-599`", Pattern: `^[1-5][0-9]{2}(-[1-5][0-9]{2})?$`, Number: true}
}

// MarshalText is the text form.
func (s StatusRange) MarshalText() ([]byte, error) {
	if s.From == s.To {
		return []byte(strconv.Itoa(s.From)), nil
	}
	return fmt.Appendf(nil, "%d-%d", s.From, s.To), nil
}

// UnmarshalText reads a status or a range.
func (s *StatusRange) UnmarshalText(text []byte) error {
	from, to, isRange := strings.Cut(string(text), "-")
	if !isRange {
		to = from
	}
	first, firstErr := strconv.ParseUint(from, 10, 16)
	last, lastErr := strconv.ParseUint(to, 10, 16)
	if firstErr != nil || lastErr != nil || len(from) != 3 || len(to) != 3 || first < 100 || last > 599 || first > last {
		return errors.New("it is not a status or a range of statuses: write one such as 404 or 500-599")
	}
	*s = StatusRange{From: int(first), To: int(last)}
	return nil
}

// AddressRange is a range of IP addresses, or one address.
type AddressRange struct{ netip.Prefix }

// Form implements [declare.Scalar].
func (AddressRange) Form() declare.Form {
	return declare.Form{Name: "address or range such as `10.0.0.0/8`", Pattern: `^[0-9a-fA-F:.]+(/[0-9]{1,3})?$`}
}

// UnmarshalText reads a range or an address. Bits behind those that the range
// has in common are dropped, as 10.1.2.3/8 is 10.0.0.0/8.
func (a *AddressRange) UnmarshalText(text []byte) error {
	if address, err := netip.ParseAddr(string(text)); err == nil && address.Zone() == "" {
		address = address.Unmap()
		a.Prefix = netip.PrefixFrom(address, address.BitLen())
		return nil
	}
	prefix, err := netip.ParsePrefix(string(text))
	if err != nil || prefix.Addr().Is4In6() {
		return errors.New("it is not a range of addresses: write one such as 10.0.0.0/8, 2001:db8::/32 or 10.0.0.1")
	}
	a.Prefix = prefix.Masked()
	return nil
}

// ServicePort is a port of a Service, by number or by name.
type ServicePort struct {
	Number int32
	Name   string
}

// Form implements [declare.Scalar].
func (ServicePort) Form() declare.Form {
	return declare.Form{Name: "number or name of a port", Pattern: portForm.String(), Number: true}
}

// MarshalText is the text form.
func (p ServicePort) MarshalText() ([]byte, error) {
	if p.Name != "" {
		return []byte(p.Name), nil
	}
	return []byte(strconv.Itoa(int(p.Number))), nil
}

// UnmarshalText reads a number from 1 to 65535 or a name.
func (p *ServicePort) UnmarshalText(text []byte) error {
	name := string(text)
	number, err := strconv.ParseUint(name, 10, 16)
	switch {
	case err == nil && number > 0:
		*p = ServicePort{Number: int32(number)}
	case portForm.Match(text) && strings.Trim(name, "0123456789-") != "":
		*p = ServicePort{Name: name}
	default:
		return errors.New("it is not a port: write a number from 1 to 65535, or the name of a port")
	}
	return nil
}
