/** The places of displays in restored cells, so that any cell can update them; pure. */

/** One output of one cell. */
export interface IDisplayPlace {
  readonly cellId: string;
  readonly index: number;
}

export class Displays {
  add(displayId: string, cellId: string, index: number): void {
    const places = this._places.get(displayId) ?? [];
    this._places.set(displayId, [...places, { cellId, index }]);
  }

  of(displayId: string): readonly IDisplayPlace[] {
    return this._places.get(displayId) ?? [];
  }

  /** Remove a cell whose outputs are gone. */
  forget(cellId: string): void {
    for (const [displayId, places] of this._places) {
      const left = places.filter(place => place.cellId !== cellId);
      if (left.length > 0) {
        this._places.set(displayId, left);
      } else {
        this._places.delete(displayId);
      }
    }
  }

  private readonly _places = new Map<string, readonly IDisplayPlace[]>();
}
