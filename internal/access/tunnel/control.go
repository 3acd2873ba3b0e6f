package tunnel

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxControlLine bounds a message of the control stream, which is one line of JSON. A
// longer line ends the connection.
const maxControlLine = 16 << 10

// agentMessage is a control message from the agent to the platform.
type agentMessage struct {
	// Token replaces the token that the connection was opened with. The platform
	// keeps the connection until this token expires.
	Token string `json:"token,omitempty"`
	// Moved reports that the agent has a replacement for the connection. The platform
	// sends no new requests on it and closes it after the last one.
	Moved bool `json:"moved,omitempty"`
}

// hubMessage is a control message from the platform to the agent.
type hubMessage struct {
	// Replicas is the number of live replicas of the platform. With it the agent
	// decides whether its connections can be spread.
	Replicas int `json:"replicas,omitempty"`
	// Drain requests that the agent connects to another replica, because this one is
	// about to shut down.
	Drain bool `json:"drain,omitempty"`
	// Refused is the reason why the platform is about to close the connection.
	Refused string `json:"refused,omitempty"`
}

// readHubMessage reads one message. Unknown fields are ignored: a newer platform may
// send them.
func readHubMessage(r *bufio.Reader) (hubMessage, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return hubMessage{}, fmt.Errorf("control message exceeds %d bytes", maxControlLine)
	}
	if err != nil {
		return hubMessage{}, err
	}
	var n hubMessage
	if err := json.Unmarshal(line, &n); err != nil {
		return hubMessage{}, fmt.Errorf("decode control message: %w", err)
	}
	return n, nil
}

// writeAgentMessage writes one message as a line of JSON.
func writeAgentMessage(w io.Writer, p agentMessage) error {
	line, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}
