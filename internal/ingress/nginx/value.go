package nginx

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/internal/route"
)

// maxList bounds the elements of a list, and maxText the bytes of a value.
const (
	maxList = 256
	maxText = 4096
)

var errLong = fmt.Errorf("it has more than %d bytes", maxText)

// setBool returns the reader of a switch.
func setBool(slot func(*Settings) *bool) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		value, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%.64q is neither true nor false", text)
		}
		*slot(s) = value
		return nil
	}
}

// setText returns the reader of a text without control characters.
func setText(slot func(*Settings) *string) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		if err := checkText(text); err != nil {
			return err
		}
		*slot(s) = text
		return nil
	}
}

func checkText(text string) error {
	switch {
	case len(text) > maxText:
		return errLong
	case strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\uFFFD' }):
		return errors.New("it has control characters: remove them")
	}
	return nil
}

// setCount returns the reader of a whole number from 0, where 0 is often no limit.
func setCount(slot func(*Settings) *int64, most int64) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		value, err := parseCount(text, most)
		if err == nil {
			*slot(s) = value
		}
		return err
	}
}

func parseCount(text string, most int64) (int64, error) {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil || value < 0 || value > most {
		return 0, fmt.Errorf("%.64q is not a whole number from 0 to %d", text, most)
	}
	return value, nil
}

// setSeconds returns the reader of a timeout in seconds, with or without the unit.
func setSeconds(slot func(*Settings) *route.Duration) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		value, err := parseCount(strings.TrimSuffix(text, "s"), 10*365*24*3600)
		if err == nil && value == 0 {
			err = errors.New("a timeout of 0 fails every request: give the seconds")
		}
		if err == nil {
			*slot(s) = route.Duration(time.Duration(value) * time.Second)
		}
		return err
	}
}

// parseSize parses a size as nginx does: bytes, or with k, m or g.
func parseSize(text string) (int64, error) {
	digits, shift := strings.ToLower(text), 0
	for unit, by := range map[string]int{"k": 10, "m": 20, "g": 30} {
		if rest, found := strings.CutSuffix(digits, unit); found {
			digits, shift = rest, by
			break
		}
	}
	value, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || value < 0 || value > 1<<53>>shift {
		return 0, fmt.Errorf("%.64q is not a size: write bytes, or a number with k, m or g, such as 8m", text)
	}
	return value << shift, nil
}

// parseList splits a list at its commas, without empty elements.
func parseList(text string) ([]string, error) {
	if len(text) > 64*maxText {
		return nil, errLong
	}
	var list []string
	for element := range strings.SplitSeq(text, ",") {
		element = strings.TrimSpace(element)
		if element == "" || slices.Contains(list, element) {
			continue
		}
		if err := checkText(element); err != nil {
			return nil, err
		}
		if list = append(list, element); len(list) > maxList {
			return nil, fmt.Errorf("it lists more than %d: use fewer", maxList)
		}
	}
	return list, nil
}

func setList(slot func(*Settings) *[]string) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		list, err := parseList(text)
		if err == nil && len(list) > 0 {
			*slot(s) = list
		}
		return err
	}
}

// setRanges returns the reader of a list of addresses and ranges.
func setRanges(slot func(*Settings) *[]netip.Prefix) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		list, err := parseList(text)
		if err != nil {
			return err
		}
		ranges := make([]netip.Prefix, 0, len(list))
		for _, element := range list {
			prefix, err := parseRange(element)
			if err != nil {
				return err
			}
			ranges = append(ranges, prefix)
		}
		if len(ranges) == 0 {
			return errors.New("it lists no address: list those that are meant, or remove the annotation")
		}
		*slot(s) = ranges
		return nil
	}
}

func parseRange(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		return netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%.64q is neither an address nor a range such as 10.0.0.0/8", text)
	}
	return prefix.Masked(), nil
}

// setStatus returns the reader of a status within bounds.
func setStatus(slot func(*Settings) *int, from, to int64) func(*Settings, string) error {
	return func(s *Settings, text string) error {
		value, err := parseCount(text, to)
		if err != nil || value < from {
			return fmt.Errorf("%.64q is not a status from %d to %d", text, from, to)
		}
		*slot(s) = int(value)
		return nil
	}
}

// parseURL accepts an absolute URL of http or https. Variables of nginx may stand in it,
// see package comment of redirect.go.
func parseURL(text string) error {
	if err := checkText(text); err != nil {
		return err
	}
	plain := variable.ReplaceAllString(text, "x")
	parsed, err := url.Parse(plain)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" && !strings.HasPrefix(text, "$scheme://") || parsed.Host == "" {
		return fmt.Errorf("%.64q is not a URL that starts with http:// or https://", text)
	}
	return nil
}

// variable matches a variable of nginx in a text.
var variable = regexp.MustCompile(`\$(?:\{[a-z0-9_]+\}|[a-z0-9_]+)`)
