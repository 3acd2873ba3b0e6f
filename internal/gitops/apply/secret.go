package apply

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/gitops/tracking"
)

// lastApplied is where kubectl apply keeps the whole object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// mask has the values of a Secret. Its zero value hides nothing.
type mask []string

// maskOf collects the values of Secrets that messages must not show; nothing
// for other kinds.
func maskOf(key tracking.Key, objects ...*unstructured.Unstructured) mask {
	if key.Group != "" || key.Kind != "Secret" {
		return nil
	}
	var values mask
	for _, object := range objects {
		if object == nil {
			continue
		}
		for _, field := range []string{"data", "stringData"} {
			values = values.with(object.Object[field])
		}
		if copied := object.GetAnnotations()[lastApplied]; copied != "" {
			values = append(values, copied)
		}
	}
	return values
}

// with adds a value in the forms in which it could be quoted.
func (m mask) with(value any) mask {
	switch value := value.(type) {
	case nil:
	case map[string]any:
		for _, each := range value {
			m = m.with(each)
		}
	case []any:
		for _, each := range value {
			m = m.with(each)
		}
	case string:
		m = append(m, value, base64.StdEncoding.EncodeToString([]byte(value)))
		if plain, err := base64.StdEncoding.DecodeString(value); err == nil {
			m = append(m, string(plain))
		}
	default:
		m = append(m, fmt.Sprint(value))
	}
	return m
}

// shown is how many characters of a value in a row may be in a text: words that
// are anywhere are not worth hiding, and a part of a value is as bad as all.
const shown = 4

// stars replace a value of any length: its own length would be a hint.
const stars = "******"

// hide takes the values out of a text, parts of them too.
func (m mask) hide(text string) string {
	if len(m) == 0 {
		return text
	}
	text = shortened(text)
	hidden := make([]bool, len(text))
	for _, value := range m {
		markParts(text, value, hidden)
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case !hidden[i]:
			out.WriteByte(text[i])
		case i == 0 || !hidden[i-1]:
			out.WriteString(stars)
		}
	}
	return readable(out.String())
}

// readable replaces what is no text. It does not leave it out: that would put
// together what was apart.
func readable(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// shortened bounds a text to maxMessage.
func shortened(text string) string {
	if len(text) <= maxMessage {
		return readable(text)
	}
	return readable(text[:maxMessage]) + "…"
}

// markParts marks where a text has a value, or a part of it that is long enough.
func markParts(text, value string, hidden []bool) {
	size := min(shown, len(value))
	if size == 0 {
		return
	}
	for at := 0; at+size <= len(text); at++ {
		if !strings.Contains(value, text[at:at+size]) {
			continue
		}
		// A value that is shorter than what may be shown counts as a word only.
		if size < shown && (isWord(text, at-1) || isWord(text, at+size)) {
			continue
		}
		for i := at; i < at+size; i++ {
			hidden[i] = true
		}
	}
}

// isWord reports whether a letter or digit is at a place of a text.
func isWord(text string, at int) bool {
	if at < 0 || at >= len(text) {
		return false
	}
	c := text[at]
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// hideIn is an error that means the same and does not show the values.
func (m mask) hideIn(err error) error {
	if len(m) == 0 || err == nil {
		return err
	}
	response, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return &hiddenError{text: m.hide(err.Error()), cause: err}
	}
	status := response.Status()
	status.Message = m.hide(status.Message)
	if status.Details != nil {
		details := *status.Details
		details.Causes = nil
		for _, cause := range status.Details.Causes {
			cause.Message = m.hide(cause.Message)
			details.Causes = append(details.Causes, cause)
		}
		status.Details = &details
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// hiddenError is an error of another text. Is sees through it, so that the end
// of a context is known; the cause itself cannot be reached.
type hiddenError struct {
	text  string
	cause error
}

// Error is the text without the values.
func (e *hiddenError) Error() string { return e.text }

// Is reports whether the cause is another error.
func (e *hiddenError) Is(target error) bool { return errors.Is(e.cause, target) }
