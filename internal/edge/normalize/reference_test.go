package normalize_test

import (
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/slipway/internal/edge/normalize"
)

// This file spells paths and hosts the slow and obvious way, for the tests to
// hold the fast way to. It shares nothing with it but the names of hazards.

var (
	anyPercent    = regexp.MustCompile(`%([0-9A-Fa-f]{2})?`)
	unreservedOne = regexp.MustCompile(`^[A-Za-z0-9._~-]$`)
	rawInvalid    = regexp.MustCompile(`[^!$&'()*+,;=:@A-Za-z0-9._~/%-]`)
	separators    = regexp.MustCompile(`/|%2F|%5C`)
	cuts          = regexp.MustCompile(`;|%3B|%00|%23`)
)

// referencePath returns the canonical path and its hazards, or an error.
func referencePath(raw string) (string, normalize.Hazard, error) {
	if !strings.HasPrefix(raw, "/") {
		return "", 0, errors.New("not absolute")
	}
	for _, c := range []byte(raw) {
		if c <= ' ' || c >= 0x7f || c == '#' || c == '?' {
			return "", 0, errors.New("a byte that has to be escaped")
		}
	}
	var hazards normalize.Hazard
	spelled := anyPercent.ReplaceAllStringFunc(raw, func(escape string) string {
		if escape == "%" {
			hazards |= normalize.BadEscape
			return "%25"
		}
		value, _ := strconv.ParseUint(escape[1:], 16, 8)
		if char := string(rune(value)); unreservedOne.MatchString(char) {
			return char
		}
		return strings.ToUpper(escape)
	})
	spelled = rawInvalid.ReplaceAllStringFunc(spelled, func(char string) string {
		return "%" + strings.ToUpper(strconv.FormatUint(uint64(char[0]), 16))
	})
	for spelling, hazard := range map[string]normalize.Hazard{
		"%2F": normalize.EncodedSlash, "%5C": normalize.Backslash, "%00": normalize.EncodedNull,
		"%23": normalize.EncodedHash, ";": normalize.Semicolon, "%3B": normalize.Semicolon,
	} {
		if strings.Contains(spelled, spelling) {
			hazards |= hazard
		}
	}

	parts := strings.Split(spelled, "/")[1:]
	var stack []string
	for _, part := range parts {
		switch part {
		case "", ".":
		case "..":
			stack = stack[:max(len(stack)-1, 0)]
		default:
			stack = append(stack, part)
		}
	}
	canonical := "/" + strings.Join(stack, "/")
	if last := parts[len(parts)-1]; len(stack) > 0 && slices.Contains([]string{"", ".", ".."}, last) {
		canonical += "/"
	}
	for _, part := range separators.Split(canonical, -1) {
		if name := cuts.Split(part, 2)[0]; name == "." || name == ".." {
			return "", 0, errors.New("hidden dots")
		}
	}
	return canonical, hazards, nil
}

var (
	hostAndPort = regexp.MustCompile(`^(\[[^\]]*\]|[^:]*)(?::([1-9][0-9]{0,4}))?$`)
	hostLabels  = regexp.MustCompile(`^([A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}\.?$`)
)

// referenceHost returns the canonical host and the port, or an error.
func referenceHost(raw string) (string, uint16, error) {
	match := hostAndPort.FindStringSubmatch(raw)
	if match == nil {
		return "", 0, errors.New("not host and port")
	}
	port := uint64(0)
	if match[2] != "" {
		var err error
		if port, err = strconv.ParseUint(match[2], 10, 16); err != nil {
			return "", 0, err
		}
	}
	if inner, ok := strings.CutPrefix(match[1], "["); ok {
		address, err := netip.ParseAddr(strings.TrimSuffix(inner, "]"))
		if err != nil {
			return "", 0, err
		}
		if !address.Is6() || address.Zone() != "" {
			return "", 0, errors.New("not a plain IPv6 address")
		}
		return "[" + address.String() + "]", uint16(port), nil
	}
	name := strings.TrimSuffix(match[1], ".")
	if !hostLabels.MatchString(match[1]) || len(name) > 253 {
		return "", 0, errors.New("not a host name")
	}
	return strings.ToLower(name), uint16(port), nil
}
