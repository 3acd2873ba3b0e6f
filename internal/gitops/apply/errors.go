package apply

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/gitops/tracking"
)

// ErrorKind is what can be done about an error.
type ErrorKind string

// The kinds of errors.
const (
	// Transient: the same may go well later.
	Transient ErrorKind = "Transient"
	// Conflict: the object changed since it was read.
	Conflict ErrorKind = "Conflict"
	// Invalid: the API server does not accept the object.
	Invalid ErrorKind = "Invalid"
	// Immutable: the object exists, and cannot be changed so.
	Immutable ErrorKind = "Immutable"
	// Forbidden: a right is missing, or a policy is against it.
	Forbidden ErrorKind = "Forbidden"
	// NotFound: the kind, the namespace or the object does not exist.
	NotFound ErrorKind = "NotFound"
	// TooLarge: the object is larger than the API server stores.
	TooLarge ErrorKind = "TooLarge"
)

// Error is why something was not written. The data of Secrets is in neither of
// its texts.
type Error struct {
	Kind ErrorKind
	Key  tracking.Key
	// Message is for people, without the name of the object.
	Message string
	Err     error
}

// Error is the message with the name of the object.
func (e *Error) Error() string { return e.Key.String() + ": " + e.Message }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// maxMessage bounds a message. The API server quotes whole objects at times.
const maxMessage = 2000

// newError makes an error about the object, with the values of a Secret masked.
func (p *objectRef) newError(kind ErrorKind, message string, cause error) *Error {
	return &Error{Kind: kind, Key: p.key, Message: p.secrets.hide(shortened(message)), Err: p.secrets.hideIn(cause)}
}

// explain makes an error of a response of the API server.
func (p *objectRef) explain(err error) *Error {
	response, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return p.newError(Transient, "no response from the API server: "+err.Error(), err)
	}
	status := response.Status()
	switch {
	case isTooLarge(err):
		return p.newError(TooLarge, "it is larger than the API server stores, which is about 1.5 MB: "+status.Message, err)
	case apierrors.HasStatusCause(err, "NamespaceTerminating"):
		return p.newError(Transient, "its namespace is being deleted: "+status.Message, err)
	case isMalformed(err):
		return p.newError(Invalid, status.Message, err)
	case apierrors.IsInvalid(err) || status.Code == http.StatusUnprocessableEntity:
		return p.unacceptable(status, err)
	case apierrors.IsBadRequest(err) || status.Code == http.StatusUnsupportedMediaType || apierrors.IsNotAcceptable(err):
		return p.newError(Invalid, status.Message, err)
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		return p.newError(Forbidden, status.Message, err)
	case apierrors.IsNotFound(err):
		return p.absent(status, err)
	case apierrors.IsConflict(err):
		return p.newError(Conflict, "it has changed meanwhile: "+status.Message, err)
	case apierrors.IsAlreadyExists(err):
		return p.newError(Conflict, existsMessage, err)
	case apierrors.IsMethodNotSupported(err):
		return p.newError(Invalid, "objects of this kind cannot be written so: "+status.Message, err)
	case isRetryable(err):
		return p.newError(Transient, status.Message, err)
	}
	return p.newError(Invalid, status.Message, err)
}

// absent distinguishes a missing namespace and a missing kind from a missing
// object.
func (p *objectRef) absent(status metav1.Status, err error) *Error {
	details := status.Details
	switch {
	case details != nil && details.Kind == "namespaces" && details.Name == p.key.Namespace && p.key.Namespace != "":
		return p.newError(NotFound, fmt.Sprintf("the namespace %s does not exist: create it, or set the sync option CreateNamespace=true", p.key.Namespace), err)
	case isWithoutKind(err):
		return p.newError(NotFound, "the API server does not have the kind, or does not serve it yet: "+status.Message, err)
	}
	return p.newError(NotFound, "it does not exist: "+status.Message, err)
}

// isWithoutKind reports whether the API server has nothing at a path, which is
// not even that it has no object there.
func isWithoutKind(err error) bool {
	response, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && apierrors.IsNotFound(err) && (response.ErrStatus.Details == nil || response.ErrStatus.Details.Name == "")
}

// unchangeable matches how the API server refuses to change a field. Each kind
// has its own words.
var unchangeable = regexp.MustCompile(`(?i)immutable|may not change|cannot (be )?change|can not be changed|updates to .* (are|is) forbidden|may not be (changed|updated)|not be changed|is not allowed to change`)

// unacceptable distinguishes a change of an immutable field from an invalid
// object.
func (p *objectRef) unacceptable(status metav1.Status, err error) *Error {
	var fields []string
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			if unchangeable.MatchString(cause.Message) && !slices.Contains(fields, cause.Field) {
				fields = append(fields, cause.Field)
			}
		}
	}
	if len(fields) == 0 && !unchangeable.MatchString(status.Message) {
		return p.newError(Invalid, status.Message, err)
	}
	what := "it"
	if len(fields) > 0 {
		what = strings.Join(fields, ", ")
	}
	return p.newError(Immutable, fmt.Sprintf("%s cannot be changed once the object exists: set the sync option Force=true (or Replace=true with Force=true) "+
		"to delete and create it again, or undo the change; the API server responded: %s", what, status.Message), err)
}

// isTooLarge reports whether an object exceeds the limit of the API server or
// of etcd, which report it in different ways.
func isTooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || strings.Contains(err.Error(), "etcdserver: request is too large") ||
		strings.Contains(err.Error(), "trying to send message larger than max")
}

// isMalformed reports whether the API server could not decode an object. These
// responses have a status code that looks as if a retry helped.
func isMalformed(err error) bool {
	text := err.Error()
	for _, words := range []string{
		"failed to create typed patch object", "field not declared in schema",
		"failed to convert new object", "unable to convert unstructured object",
	} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}
