package service

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// teamsOptions are those of both forms of Microsoft Teams.
type teamsOptions struct {
	RecipientURLs map[string]string `json:"recipientUrls"`
	httpOptions
}

// teamsSection is the part of templates for Teams. Facts, sections and actions are JSON.
type teamsSection struct {
	Template        string `json:"template"`
	AdaptiveCard    string `json:"adaptiveCard"`
	Title           string `json:"title"`
	Summary         string `json:"summary"`
	Text            string `json:"text"`
	ThemeColor      string `json:"themeColor"`
	Facts           string `json:"facts"`
	Sections        string `json:"sections"`
	PotentialAction string `json:"potentialAction"`
}

// teams posts cards to channels: message cards by the older connectors, adaptive cards by
// workflows.
type teams struct {
	options   teamsOptions
	workflows bool
	client    *http.Client
}

func newTeams(options decoder, clients *Clients) (Service, error) {
	return teamsOf(options, clients, false)
}

func newTeamsWorkflows(options decoder, clients *Clients) (Service, error) {
	return teamsOf(options, clients, true)
}

func teamsOf(options decoder, clients *Clients, workflows bool) (Service, error) {
	t := &teams{workflows: workflows}
	if err := options(&t.options); err != nil {
		return nil, err
	}
	for _, address := range t.options.RecipientURLs {
		if err := checkAddress("recipientUrls", address); err != nil {
			return nil, err
		}
	}
	t.client = clients.of(t.options.httpOptions)
	return t, nil
}

// Send posts a card to the channel that the recipient names.
func (t *teams) Send(ctx context.Context, message Message) error {
	address, known := t.options.RecipientURLs[message.Recipient]
	if !known {
		return permanent("the option recipientUrls has no recipient %q", message.Recipient)
	}
	var own teamsSection
	if _, err := section(&message, &own); err != nil {
		return err
	}
	compose := own.messageCard
	if t.workflows {
		compose = own.adaptiveCard
	}
	body, err := compose(&message)
	if err != nil {
		return err
	}
	request, err := postJSON(address, body)
	if err != nil {
		return err
	}
	if err := request.do(ctx, t.client); err != nil {
		return err
	}
	// Connectors respond with 200 and a text to what they do not take.
	if response := strings.TrimSpace(string(request.response)); !t.workflows && response != "1" {
		return permanent("Teams refuses the card: %.200s", response)
	}
	return nil
}

// messageCard is the form of connectors.
func (s *teamsSection) messageCard(message *Message) (any, error) {
	if s.Template != "" {
		return document(message, "teams.template", s.Template)
	}
	card := map[string]any{
		"@type": "MessageCard", "context": "https://schema.org/extensions", "title": s.Title, "summary": s.Summary, "text": cmp.Or(s.Text, message.Text),
	}
	if s.ThemeColor != "" {
		card["themeColor"] = s.ThemeColor
	}
	sections, facts, actions, err := s.parts(message)
	if err != nil {
		return nil, err
	}
	if len(facts) > 0 {
		sections = append(sections, map[string]any{"facts": facts})
	}
	if len(sections) > 0 {
		card["sections"] = sections
	}
	if len(actions) > 0 {
		card["potentialAction"] = actions
	}
	return card, nil
}

// parts decodes the fields that are JSON.
func (s *teamsSection) parts(message *Message) (sections, facts, actions []map[string]any, err error) {
	for _, part := range []struct {
		name, text string
		into       *[]map[string]any
	}{{"sections", s.Sections, &sections}, {"facts", s.Facts, &facts}, {"potentialAction", s.PotentialAction, &actions}} {
		if strings.TrimSpace(part.text) == "" {
			continue
		}
		if json.Unmarshal([]byte(part.text), part.into) != nil {
			return nil, nil, nil, permanent("teams.%s of the template %s is no list in JSON after it was rendered", part.name, message.Template)
		}
	}
	return sections, facts, actions, nil
}

// adaptiveCard is the form of workflows, with the same content.
func (s *teamsSection) adaptiveCard(message *Message) (any, error) {
	content, err := document(message, "teams-workflows.adaptiveCard", cmp.Or(s.AdaptiveCard, s.Template))
	if err != nil {
		return nil, err
	}
	if content == nil {
		if content, err = s.composeAdaptive(message); err != nil {
			return nil, err
		}
	}
	return map[string]any{"type": "message", "attachments": []any{
		map[string]any{"contentType": "application/vnd.microsoft.card.adaptive", "content": content},
	}}, nil
}

// composeAdaptive makes an adaptive card of the fields of a message card.
func (s *teamsSection) composeAdaptive(message *Message) (json.RawMessage, error) {
	sections, facts, actions, err := s.parts(message)
	if err != nil {
		return nil, err
	}
	var body, buttons []any
	if s.Title != "" {
		title := map[string]any{"type": "TextBlock", "text": s.Title, "size": "Large", "weight": "Bolder", "wrap": true}
		if s.ThemeColor != "" && !strings.HasPrefix(s.ThemeColor, "#") {
			title["color"] = s.ThemeColor // a word such as Good: cards have no other colours
		}
		body = append(body, title)
	}
	if text := cmp.Or(s.Text, message.Text); text != "" {
		body = append(body, map[string]any{"type": "TextBlock", "text": text, "wrap": true})
	}
	body = appendFacts(body, facts)
	for _, one := range sections {
		list, _ := one["facts"].([]any)
		var own []map[string]any
		for _, fact := range list {
			if fields, ok := fact.(map[string]any); ok {
				own = append(own, fields)
			}
		}
		body = appendFacts(body, own)
	}
	for _, action := range actions {
		if address := actionAddress(action); address != "" {
			buttons = append(buttons, map[string]any{"type": "Action.OpenUrl", "title": action["name"], "url": address})
		}
	}
	card := map[string]any{"type": "AdaptiveCard", "version": "1.4", "body": body}
	if len(buttons) > 0 {
		card["actions"] = buttons
	}
	encoded, err := json.Marshal(card)
	if err != nil {
		return nil, fmt.Errorf("encode the card: %w", err)
	}
	return encoded, nil
}

// appendFacts appends a set of facts, if there are any.
func appendFacts(body []any, facts []map[string]any) []any {
	var set []any
	for _, fact := range facts {
		if name, ok := fact["name"].(string); ok {
			set = append(set, map[string]any{"title": name, "value": factText(fact["value"])})
		}
	}
	if len(set) == 0 {
		return body
	}
	return append(body, map[string]any{"type": "FactSet", "facts": set})
}

// actionAddress returns where an action leads; empty if it opens nothing.
func actionAddress(action map[string]any) string {
	if action["@type"] != "OpenUri" {
		return ""
	}
	targets, _ := action["targets"].([]any)
	if len(targets) == 0 {
		return ""
	}
	first, _ := targets[0].(map[string]any)
	address, _ := first["uri"].(string)
	return address
}

// factText is the value of a fact.
func factText(value any) string {
	if value == nil {
		return ""
	}
	return fmt.Sprint(value)
}
