package notify

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// The annotations of subscriptions, with the names of Argo CD.
const (
	subscribePrefix         = "notifications.argoproj.io/subscribe."
	subscriptionsAnnotation = "notifications.argoproj.io/subscriptions"
)

const (
	// maxDestinations bounds the destinations of one Application: annotations are input
	// of tenants, and each destination is a message.
	maxDestinations = 100
	// maxRecipient bounds a recipient, which is in the record of what was sent.
	maxRecipient = 512
)

// Destination is a recipient at a service.
type Destination struct{ Service, Recipient string }

// String has the form of default subscriptions.
func (d Destination) String() string { return d.Service + ":" + d.Recipient }

// subscriptions collects who receives what, by trigger.
type subscriptions struct {
	settings  *Settings
	byTrigger map[string][]Destination
	count     int
	problems  []string
}

// subscriptionsOf returns the destinations of an Application by trigger: by default, by
// its annotations and by those of its project. Problems are subscriptions without effect.
func (s *Settings) subscriptionsOf(labelled, annotations, projectAnnotations map[string]string) (map[string][]Destination, []string) {
	found := &subscriptions{settings: s, byTrigger: map[string][]Destination{}}
	for _, one := range s.Subscriptions {
		if !one.Selector.Matches(labels.Set(labelled)) {
			continue
		}
		triggers := one.Triggers
		if len(triggers) == 0 {
			triggers = s.DefaultTriggers
		}
		for _, to := range one.To {
			found.add(triggers, to)
		}
	}
	found.addAnnotations(annotations)
	found.addAnnotations(projectAnnotations)
	return found.byTrigger, found.problems
}

// isSubscription reports whether an annotation is a subscription.
func isSubscription(key string) bool {
	return strings.HasPrefix(key, subscribePrefix) || key == subscriptionsAnnotation
}

// add adds a destination to triggers, once.
func (s *subscriptions) add(triggers []string, to Destination) {
	if _, known := s.settings.Services[to.Service]; !known {
		s.problem("there is no service %q: subscriptions can name %s", to.Service, names(s.settings.Services))
		return
	}
	if len(to.Recipient) > maxRecipient {
		s.problem("a recipient of %s is longer than %d bytes", to.Service, maxRecipient)
		return
	}
	for _, trigger := range triggers {
		if _, known := s.settings.Triggers[trigger]; !known {
			s.problem("there is no trigger %q: subscriptions can name %s", trigger, names(s.settings.Triggers))
			continue
		}
		if slices.Contains(s.byTrigger[trigger], to) {
			continue
		}
		if s.count++; s.count > maxDestinations {
			s.problem("only the first %d destinations are used", maxDestinations)
			return
		}
		s.byTrigger[trigger] = append(s.byTrigger[trigger], to)
	}
}

// problem adds a problem, once.
func (s *subscriptions) problem(format string, values ...any) {
	if text := fmt.Sprintf(format, values...); !slices.Contains(s.problems, text) {
		s.problems = append(s.problems, text)
	}
}

// addAnnotations adds the subscriptions of annotations.
func (s *subscriptions) addAnnotations(annotations map[string]string) {
	// In order, so that the bound always takes the same ones.
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		value := annotations[key]
		if rest, isOne := strings.CutPrefix(key, subscribePrefix); isOne {
			s.addOne(rest, value)
		} else if key == subscriptionsAnnotation {
			s.addList(value)
		}
	}
}

// addOne adds an annotation whose name has the trigger and the service, or the service
// alone. Its value has the recipients, separated by semicolons.
func (s *subscriptions) addOne(name, value string) {
	trigger, service, both := strings.Cut(name, ".")
	if !both {
		trigger, service = "", name
	}
	recipients := []string{""} // a service such as a webhook has none
	if value != "" {
		recipients = nil
		for recipient := range strings.SplitSeq(value, ";") {
			if recipient = strings.TrimSpace(recipient); recipient != "" {
				recipients = append(recipients, recipient)
			}
		}
	}
	for _, recipient := range recipients {
		s.add(s.triggersOf(trigger, service), Destination{Service: service, Recipient: recipient})
	}
}

// addList adds an annotation that is a list in YAML.
func (s *subscriptions) addList(value string) {
	var given []struct {
		Trigger      []string `json:"trigger"`
		Destinations []struct {
			Service    string   `json:"service"`
			Recipients []string `json:"recipients"`
		} `json:"destinations"`
	}
	if err := yaml.UnmarshalStrict([]byte(value), &given); err != nil {
		s.problem("the annotation %s cannot be read: %v", subscriptionsAnnotation, err)
		return
	}
	for _, one := range given {
		for _, to := range one.Destinations {
			triggers := one.Trigger
			if len(triggers) == 0 {
				triggers = s.triggersOf("", to.Service)
			}
			for _, recipient := range to.Recipients {
				s.add(triggers, Destination{Service: to.Service, Recipient: recipient})
			}
		}
	}
}

// triggersOf returns the triggers of a subscription: the one that it names, or the
// default ones of its service or of all.
func (s *subscriptions) triggersOf(trigger, service string) []string {
	if trigger != "" {
		return []string{trigger}
	}
	if own, known := s.settings.ServiceTriggers[service]; known {
		return own
	}
	return s.settings.DefaultTriggers
}

// names lists the keys of settings for people.
func names[V any](of map[string]V) string {
	if len(of) == 0 {
		return "none yet"
	}
	return strings.Join(slices.Sorted(maps.Keys(of)), ", ")
}
