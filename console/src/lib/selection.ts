/** The run that is marked in a list: the palette's commands are for it. */

export interface Selection {
  readonly family: string;
  readonly run: string;
  readonly title: string;
}

let selection: Selection | null = null;

export const selected = (): Selection | null => selection;

export function select(next: Selection | null): void {
  selection = next;
}
