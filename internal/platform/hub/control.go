package hub

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"slipway.dev/slipway/internal/secret"
)

// maxLine bounds a message of the control stream, which is one line of JSON.
const maxLine = 16 << 10

// agentMessage is a control message from an agent. The agent's package has
// the same format: agent and platform share no code but wire.
type agentMessage struct {
	// Token replaces the token that the connection was opened with.
	Token secret.Text
	// Moved reports that the agent has a replacement for the connection.
	Moved bool
}

// hubMessage is a control message to an agent.
type hubMessage struct {
	// Replicas is the number of live replicas of the platform.
	Replicas int `json:"replicas,omitempty"`
	// Drain requests that the agent connects to another replica.
	Drain bool `json:"drain,omitempty"`
	// Refused is the reason why the hub is about to close the connection.
	Refused string `json:"refused,omitempty"`
}

// readAgentMessage reads one message. Unknown fields are ignored: a newer
// agent may send them. Errors do not include the line, because it contains a
// token.
func readAgentMessage(r *bufio.Reader) (agentMessage, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return agentMessage{}, fmt.Errorf("control message exceeds %d bytes", maxLine)
	}
	if err != nil {
		return agentMessage{}, err
	}
	var p struct {
		Token string `json:"token"`
		Moved bool   `json:"moved"`
	}
	if json.Unmarshal(line, &p) != nil {
		return agentMessage{}, errors.New("control message is not valid JSON")
	}
	return agentMessage{Token: secret.New(p.Token), Moved: p.Moved}, nil
}

// writeHubMessage writes one message as a line of JSON.
func writeHubMessage(w io.Writer, n hubMessage) error {
	line, err := json.Marshal(n)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}
