package up

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// trafficSecretFile has what the edge and the agent share, so that the agent may
// ask the edge about its traffic. The agent's folder has it.
const trafficSecretFile = "traffic-secret"

func (s *scene) trafficSecret() string {
	return filepath.Join(s.state.path(agentName), trafficSecretFile)
}

// provideTrafficSecret makes it once. The part that comes first does.
func (s *scene) provideTrafficSecret() error {
	name := filepath.Join(agentName, trafficSecretFile)
	_, err := s.state.root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.state.root.MkdirAll(agentName, 0o700); err == nil {
			err = s.state.writeSynced(name, []byte(rand.Text()+rand.Text()+"\n"))
		}
	}
	if err != nil {
		return fmt.Errorf("make the secret of the edge and the agent: %w", err)
	}
	return nil
}
