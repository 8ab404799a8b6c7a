// A page that fails says so, and the others go on.
import { Component, type ReactNode } from "react";

export class Boundary extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state: { error: Error | null } = { error: null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    return (
      <div className="note bad" role="alert">
        <strong>This page failed:</strong> {error.message}
        <div className="row" style={{ marginTop: 8 }}>
          <button type="button" onClick={() => this.setState({ error: null })}>
            Try again
          </button>
          <button type="button" onClick={() => window.location.reload()}>
            Load everything anew
          </button>
        </div>
      </div>
    );
  }
}
