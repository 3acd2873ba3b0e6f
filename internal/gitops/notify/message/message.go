package message

import (
	"encoding/json"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Condition is one condition of a trigger, with the field names of Argo CD.
type Condition struct {
	// When is an expression; the templates of Send are sent while it is true.
	When string `json:"when,omitempty"`
	// OncePer is an expression. A message is sent once for each of its values, and
	// without it once each time that When becomes true.
	OncePer     string   `json:"oncePer,omitempty"`
	Description string   `json:"description,omitempty"`
	Send        []string `json:"send,omitempty"`
}

// Template is a template with its name. The text is the YAML of the setting.
type Template struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Commit is what expressions read of a commit.
type Commit struct {
	Message string
	Author  string
	Date    time.Time
	Tags    []string
}

// Edge is what the edges serve of an Application. It is the variable edge of expressions and
// templates.
type Edge struct {
	// Routes are host and path of those that lead to a backend at every edge, sorted.
	Routes []string `json:"routes"`
	// Problems are those of certificates of the routes, sorted.
	Problems []string `json:"problems"`
}

// Request is what is evaluated or rendered about one Application. It can be sent to
// another process and means the same there.
type Request struct {
	Object  json.RawMessage   `json:"object"`
	Project json.RawMessage   `json:"project,omitempty"`
	Context map[string]string `json:"context,omitempty"`
	// Secrets is the content of the Secret of notifications, if the text reads it.
	Secrets map[string][]byte `json:"secrets,omitempty"`
	// Commits are those that GetCommitMetadata can return, by revision.
	Commits map[string]Commit `json:"commits,omitempty"`
	// Edge is what the edges serve of the Application, if the text reads it; nil if it is
	// not known.
	Edge *Edge `json:"edge,omitempty"`
	// Triggers are evaluated.
	Triggers map[string][]Condition `json:"triggers,omitempty"`
	// Templates are rendered into one message. The later ones go before the earlier
	// ones.
	Templates []Template `json:"templates,omitempty"`
	// Service, Type and Recipient are where the message goes: the name of the service,
	// what it is, and whom it reaches.
	Service   string `json:"service,omitempty"`
	Type      string `json:"type,omitempty"`
	Recipient string `json:"recipient,omitempty"`
}

// Result is the outcome of one condition.
type Result struct {
	// Key identifies the condition within its trigger, as Argo CD does.
	Key       string `json:"key"`
	Triggered bool   `json:"triggered,omitempty"`
	OncePer   string `json:"oncePer,omitempty"`
	// Problem is why an expression has no value. The condition is not met then.
	Problem string `json:"problem,omitempty"`
}

// Message is a rendered message.
type Message struct {
	// Text is the field message of the templates.
	Text string `json:"text,omitempty"`
	// Section is what the templates have for the type of the service; nil if nothing.
	Section json.RawMessage `json:"section,omitempty"`
}

// Response has the results of the triggers, one for each condition, and the message.
type Response struct {
	Results map[string][]Result `json:"results,omitempty"`
	Message *Message            `json:"message,omitempty"`
	// Problem is why there is no message.
	Problem string `json:"problem,omitempty"`
}

// Run evaluates the triggers of a request and renders its templates.
func Run(request Request) (Response, error) {
	variables, err := request.variables()
	if err != nil {
		return Response{}, err
	}
	response := Response{}
	if len(request.Triggers) > 0 {
		response.Results = map[string][]Result{}
	}
	for name, conditions := range request.Triggers {
		response.Results[name] = evaluate(conditions, variables)
	}
	if len(request.Templates) > 0 {
		response.Message, err = request.render(variables)
		if err != nil {
			response.Problem = err.Error()
		}
	}
	return response, nil
}

// decode reads an object as Kubernetes does: whole numbers stay whole.
func decode(text json.RawMessage) (map[string]any, error) {
	object := map[string]any{}
	if len(text) == 0 {
		return object, nil
	}
	err := utiljson.Unmarshal(text, &object)
	return object, err
}
