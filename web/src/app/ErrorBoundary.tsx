// Error boundary of a page: an exception in one page leaves the rest of the console usable.
import { Component, type ReactNode } from "react";

/** Shows the error of a page that threw an exception, with buttons to render it again or to reload the console. */
export class ErrorBoundary extends Component<{ children: ReactNode }, { error: Error | null }> {
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
            Reload the console
          </button>
        </div>
      </div>
    );
  }
}
