package nginx

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/slipway/internal/ingress/nginx/snippet"
	"slipway.dev/slipway/internal/route"
)

// ownHeaders are headers that the edge writes itself, because they frame a message or
// belong to one connection.
var ownHeaders = []string{
	"connection", "content-length", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect", "http2-settings", "cdn-loop",
}

// headerName validates the name of a header that is changed.
func headerName(name string) error {
	switch {
	case name == "" || len(name) > 256 || strings.ContainsFunc(name, func(c rune) bool {
		return c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	}):
		return fmt.Errorf("%.64q is not the name of a header", name)
	case slices.Contains(ownHeaders, strings.ToLower(strings.ReplaceAll(name, "_", "-"))):
		return fmt.Errorf("the edge writes the header %s itself", name)
	}
	return nil
}

// header returns a header with its value.
func header(name, value string) (route.TextHeader, error) {
	if err := headerName(name); err != nil {
		return route.TextHeader{}, err
	}
	if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
		return route.TextHeader{}, errors.New("the value has control characters: remove them")
	}
	text, err := parseText(value)
	return route.TextHeader{Name: name, Value: text}, err
}

func (t *translator) addHeader(directive *snippet.Directive) error {
	if err := words(directive, 2, 3); err != nil {
		return err
	}
	made, err := header(directive.Words[0], directive.Words[1])
	if err != nil {
		return err
	}
	if len(directive.Words) == 3 {
		if directive.Words[2] != "always" {
			return fmt.Errorf("%.64q is not possible: write always, or nothing", directive.Words[2])
		}
		made.Always = true
	}
	to := t.response()
	to.Add = append(to.Add, made)
	return nil
}

// setHeader translates proxy_set_header. Upgrades pass without the headers that people
// set for them.
func (t *translator) setHeader(directive *snippet.Directive) error {
	if err := words(directive, 2, 2); err != nil {
		return err
	}
	switch strings.ToLower(directive.Words[0]) {
	case "upgrade", "connection":
		return nil
	case "host":
		if t.auth {
			return errors.New("ingress-nginx sends its own Host, too; use auth-proxy-set-headers")
		}
		return errors.New("ingress-nginx sends its own Host, too; use upstream-vhost")
	}
	made, err := header(directive.Words[0], directive.Words[1])
	if err == nil {
		t.made.Program.Request = append(t.made.Program.Request, made)
	}
	return err
}

func (t *translator) hideHeader(directive *snippet.Directive) error {
	if err := words(directive, 1, 1); err != nil {
		return err
	}
	t.made.Program.Hide = append(t.made.Program.Hide, directive.Words[0])
	return headerName(directive.Words[0])
}

// statusOption reads the options of the directives of headers-more: -s with statuses.
func statusOption(list []string) (rest []string, statuses []int, err error) {
	for len(list) > 0 && strings.HasPrefix(list[0], "-") {
		if list[0] != "-s" || len(list) < 2 {
			return nil, nil, fmt.Errorf("the option %.64q is not carried out: use -s with statuses, or none", list[0])
		}
		for word := range strings.FieldsSeq(list[1]) {
			status, err := strconv.Atoi(word)
			if err != nil || status < 100 || status > 599 {
				return nil, nil, fmt.Errorf("%.64q is not a status", word)
			}
			statuses = append(statuses, status)
		}
		list = list[2:]
	}
	if len(list) == 0 {
		return nil, nil, errors.New("there is no header")
	}
	return list, statuses, nil
}

func (t *translator) moreSet(directive *snippet.Directive) error {
	list, statuses, err := statusOption(directive.Words)
	if err != nil {
		return err
	}
	for _, word := range list {
		name, value, _ := strings.Cut(word, ":")
		made, err := header(strings.TrimSpace(name), strings.TrimSpace(value))
		if err != nil {
			return err
		}
		made.Statuses = statuses
		to := t.response()
		to.Change = append(to.Change, made)
	}
	return nil
}

func (t *translator) moreClear(directive *snippet.Directive) error {
	list, statuses, err := statusOption(directive.Words)
	if err != nil {
		return err
	}
	for _, word := range list {
		name := strings.TrimSpace(strings.TrimSuffix(word, ":"))
		if strings.Contains(name, "*") {
			return fmt.Errorf("%.64q has a *: list the headers", name)
		}
		if err := headerName(name); err != nil {
			return err
		}
		to := t.response()
		to.Change = append(to.Change, route.TextHeader{Name: name, Statuses: statuses})
	}
	return nil
}
