package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The bounds of a page. A table of ten thousand rules must not become one response.
const (
	defaultLimit = 100
	maxLimit     = 1000
)

// query holds the parameters of a request. Their names have been validated.
type query struct{ values url.Values }

// page is a part of a list.
type page[V any] struct {
	// Total is the length of the list, Matched how many items the filter selects.
	Total   int `json:"total"`
	Matched int `json:"matched,omitempty"`
	// Offset and Limit repeat the parameters, with their defaults filled in.
	Offset int `json:"offset"`
	Limit  int `json:"limit"`
	Items  []V `json:"items"`
}

// asYAML marks a value that is written as YAML.
type asYAML struct{ value any }

// badRequest is an error of the client, with status 400.
type badRequest struct{ message string }

func (e badRequest) Error() string { return e.message }

// badRequestf returns an error that respond maps to 400.
func badRequestf(format string, args ...any) error {
	return badRequest{fmt.Sprintf(format, args...)}
}

// respond validates the parameters and writes the value that get returns, or its
// error.
func (h *Handler) respond(w http.ResponseWriter, r *http.Request, params []string, get func(*query) (any, error)) {
	// A failure of get is a 500 unless it is the client's: operators must see the
	// difference.
	value, err := getValue(r, params, get)
	if err != nil {
		status := http.StatusInternalServerError
		if bad := (badRequest{}); errors.As(err, &bad) {
			status = http.StatusBadRequest
		}
		writeError(w, status, err.Error())
		return
	}
	contentType, text, err := encode(value)
	if err != nil {
		writeError(w, http.StatusInternalServerError, err.Error())
		return
	}
	// Encoded in full before the first byte, so that an error still has its status.
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(text) // an error means that the client is gone
}

// getValue validates the parameters and calls get.
func getValue(r *http.Request, params []string, get func(*query) (any, error)) (any, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequestf("the query cannot be parsed: %v", err)
	}
	// A repeated parameter is refused too: it is unclear which value counts.
	for name, given := range values {
		if !slices.Contains(params, name) {
			return nil, badRequestf("the parameter %q is unknown: %s", name, knownText(params))
		}
		if len(given) > 1 && name != "header" {
			return nil, badRequestf("the parameter %s is given twice: keep one", name)
		}
	}
	return get(&query{values})
}

// knownText lists the valid parameters, for a message.
func knownText(params []string) string {
	if len(params) == 0 {
		return "there are none"
	}
	return "use " + strings.Join(params, ", ")
}

// encode writes a value as indented JSON, or as YAML made from it.
func encode(value any) (contentType string, text []byte, err error) {
	marked, wantsYAML := value.(asYAML)
	if wantsYAML {
		value = marked.value
	}
	// YAML is made from the JSON, so that both have the same names and redactions.
	text, err = json.MarshalIndent(value, "", "  ")
	if err != nil {
		return "", nil, err
	}
	if !wantsYAML {
		return "application/json", append(text, '\n'), nil
	}
	text, err = toYAML(text)
	return "application/yaml", text, err
}

// toYAML converts JSON, which is YAML already, to block style.
func toYAML(text []byte) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	// Style 0 is block style with quotes only where they are needed.
	var plain func(*yaml.Node)
	plain = func(node *yaml.Node) {
		node.Style = 0
		for _, child := range node.Content {
			plain(child)
		}
	}
	plain(&document)
	return yaml.Marshal(&document)
}

// writeError writes an error, in the same form everywhere.
func writeError(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	text, _ := json.Marshal(map[string]string{"error": message}) // text cannot fail
	_, _ = w.Write(append(text, '\n'))
}

func (q *query) get(name string) string { return q.values.Get(name) }

// number parses a parameter that is 0 or more.
func (q *query) number(name string, without, most int) (int, error) {
	text := q.get(name)
	if text == "" {
		return without, nil
	}
	// A negative offset or a huge limit is an error, not a default.
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, badRequestf("%s is %q: get a number from 0 to %d", name, text, most)
	}
	return n, nil
}

// paginate returns one page of a list, of the wanted items only. Only the items of
// the page are converted with show.
func paginate[V, S any](q *query, list []V, wanted func(V) bool, show func(V) S) (any, error) {
	limit, err := q.number("limit", defaultLimit, maxLimit)
	if err != nil {
		return nil, err
	}
	offset, err := q.number("offset", 0, 1<<30)
	if err != nil {
		return nil, err
	}
	p := page[S]{Total: len(list), Offset: offset, Limit: limit, Items: []S{}}
	// All matches are counted, so that a client can compute the number of pages.
	for _, v := range list {
		if !wanted(v) {
			continue
		}
		if p.Matched >= offset && len(p.Items) < limit {
			p.Items = append(p.Items, show(v))
		}
		p.Matched++
	}
	return p, nil
}
